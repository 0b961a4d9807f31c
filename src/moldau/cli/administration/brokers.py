"""`moldau brokers list|describe|decommission`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.cli.access import CLIENT_ID, access_of
from moldau.cli.administration.broker_disks import disk_in_words, disks_of
from moldau.cli.administration.moves import add_move_arguments, all_partitions, move, replicas_of_all, see_through
from moldau.cli.arguments import Subparsers, int32
from moldau.cli.cluster import add_cluster_arguments, cluster_admin, is_view_new
from moldau.cli.output import CommandError, print_rows

if TYPE_CHECKING:
    from moldau.client.admin.client import ClusterAdmin
    from moldau.client.admin.reassignments import Replicas
    from moldau.types import TopicPartition


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("brokers", help="list, describe and decommission brokers")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    listing = verbs.add_parser(
        "list", help="list brokers with their leaders and replicas", examples=("moldau brokers list",)
    )
    add_cluster_arguments(listing, list_brokers)

    describe = verbs.add_parser(
        "describe", help="show the replicas of a broker", examples=("moldau brokers describe 2",)
    )
    describe.add_argument("broker", type=int32, help="the id of the broker")
    add_cluster_arguments(describe, describe_broker)

    leave = verbs.add_parser(
        "decommission",
        help="move all replicas of a broker to the others",
        description="Shows where the replicas of a broker would go; with --execute they move, and the command waits. "
        "Clients are served throughout. The broker can be stopped then.",
        examples=("moldau brokers decommission 3", "moldau brokers decommission 3 --execute --throttle 50000000"),
    )
    leave.add_argument("broker", type=int32, help="the id of the broker")
    add_move_arguments(leave)
    add_cluster_arguments(leave, decommission, json=False)


def list_brokers(arguments: argparse.Namespace) -> int:
    from moldau.client.admin.brokers import describe_cluster

    with cluster_admin(arguments) as admin:
        brokers = describe_cluster(admin, with_fenced=True).brokers
        partitions = all_partitions(admin)
    is_view_new(arguments)
    disks = disks_of(access_of(arguments).named(CLIENT_ID), [row for row in brokers if not row.is_fenced])
    rows: list[dict[str, object]] = [
        {
            "broker": row.broker_id,
            "address": f"{row.host}:{row.port}",
            "rack": row.rack,
            "state": "fenced" if row.is_fenced else "no answer" if disks[row.broker_id] is None else "serving",
            "leads": sum(each.leader_id == row.broker_id for each in partitions.values()),
            "replicas": sum(row.broker_id in each.replicas for each in partitions.values()),
            "out_of_sync": sum(
                row.broker_id in each.replicas and row.broker_id not in each.isr for each in partitions.values()
            ),
            "disk": disk_in_words(
                disks.get(row.broker_id) or (),
                has_offline=any(row.broker_id in each.offline for each in partitions.values()),
            ),
        }
        for row in brokers
    ]
    columns = ("broker", "address", "rack", "state", "leads", "replicas", "out_of_sync", "disk")
    print_rows(rows, columns, as_json=arguments.json)
    return 0


def describe_broker(arguments: argparse.Namespace) -> int:
    broker = arguments.broker
    with cluster_admin(arguments) as admin:
        partitions = all_partitions(admin)
        _check_known(admin, broker, (row.replicas for row in partitions.values()))
        sizes = _sizes(admin, broker)
    rows: list[dict[str, object]] = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "role": "leader" if row.leader_id == broker else "follower",
            "in_sync": "yes" if broker in row.isr else "no",
            "bytes": sizes.get(partition, (None, None))[0],
            "directory": sizes.get(partition, (None, None))[1],
        }
        for partition, row in partitions.items()
        if broker in row.replicas
    ]
    columns = ("topic", "partition", "role", "in_sync", "bytes", "directory")
    print_rows(rows, columns, as_json=arguments.json, empty=f"broker {broker} holds no replica")
    return 0


def _check_known(admin: ClusterAdmin, broker: int, replicas: Iterable[Sequence[int]]) -> None:
    """Raises CommandError for an id that belongs to no broker and to no replica."""
    from moldau.client.admin.brokers import describe_cluster

    known = [row.broker_id for row in describe_cluster(admin, with_fenced=True).brokers]
    if broker not in known and not any(broker in each for each in replicas):
        raise CommandError(f"there is no broker {broker}, only {', '.join(map(str, sorted(known)))}")


def _sizes(admin: ClusterAdmin, broker: int) -> dict[TopicPartition, tuple[int, str]]:
    """Size in bytes and log directory of each replica; empty for a broker that does not serve."""
    from moldau.client.admin.partitions import describe_log_dirs
    from moldau.errors import KafkaError

    if broker not in admin.cluster().broker_ids():
        return {}
    try:
        directories = describe_log_dirs(admin, broker)
    except KafkaError as error:
        print(f"moldau: broker {broker} does not tell its sizes: {error}", file=sys.stderr)
        return {}
    return {
        replica.partition: (replica.size_bytes, directory.path)
        for directory in directories
        for replica in directory.replicas
        if not replica.is_future
    }


def decommission(arguments: argparse.Namespace) -> int:
    broker = arguments.broker
    with cluster_admin(arguments) as admin:
        _check_known(admin, broker, replicas_of_all(admin).values())
        if arguments.execute:
            _has_left(admin, arguments)  # finish the moves of an interrupted command first, within the throttle
        current = replicas_of_all(admin)
        wanted = _without(admin, current, broker)
        # while replicas move, a new topic may get one on this broker
        while move(admin, current, wanted, arguments, empty=f"no replica has to move from broker {broker}"):
            current = replicas_of_all(admin)
            wanted = _without(admin, current, broker)
        if not wanted and _has_left(admin, arguments):
            _say_what_is_left(admin, broker)
    return 0


def _has_left(admin: ClusterAdmin, arguments: argparse.Namespace) -> bool:
    """Whether no replica is still leaving the broker; otherwise reports or waits for the rest."""
    from moldau.client.admin.partitions import list_reassignments

    going = {one: row for one, row in list_reassignments(admin).items() if arguments.broker in row.removing}
    see_through(admin, going, arguments, f" away from broker {arguments.broker}")
    return arguments.execute or not going


def _without(
    admin: ClusterAdmin, current: Mapping[TopicPartition, Replicas], broker: int
) -> dict[TopicPartition, Replicas]:
    """The partitions with the replicas of the broker placed elsewhere. Raises CommandError."""
    from moldau.client.admin import reassignments

    racks = {row.node_id: row.rack for row in admin.cluster().brokers}
    try:
        return reassignments.without_broker(current, broker, racks)
    except ValueError as error:
        raise CommandError(str(error)) from error


def _say_what_is_left(admin: ClusterAdmin, broker: int) -> None:
    """Prints commands that work unchanged, even after the broker has stopped: they name another broker's address."""
    from moldau.cli.administration.quorum import quorum_of

    address = next((f"{row.host}:{row.port}" for row in admin.cluster().brokers if row.node_id != broker), None)
    if address is None:
        return  # the only broker of a cluster cannot be removed
    print(f"what is left to do, for broker {broker} holds no replica any more:")
    print("  stop it")
    # Not removed from the voters first: an Apache Kafka node that led the quorum may then take minutes to stop.
    voter = next((each for each in quorum_of(admin).voters if each.node_id == broker), None)
    if voter is not None and voter.directory_id is None:
        print("  take it out of controller.quorum.voters, which takes a stop of all nodes")
    elif voter is not None:
        print(f"  moldau quorum remove {broker} -b {address}    # it votes no more")
    print(f"  moldau kafka-cluster unregister --id {broker} --bootstrap-server {address}    # it is forgotten")
