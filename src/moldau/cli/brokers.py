"""`moldau brokers list|describe|decommission`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.cli.arguments import Subparsers, int64
from moldau.cli.cluster import add_cluster_arguments, cluster_admin
from moldau.cli.output import CommandError, print_rows

if TYPE_CHECKING:
    from moldau.client.admin.client import ClusterAdmin
    from moldau.client.admin.topics import PartitionDescription
    from moldau.types import TopicPartition

POLL_MS = 1_000


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("brokers", help="the brokers of a cluster, what each holds, taking one out")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    listing = verbs.add_parser(
        "list", help="list brokers with what they lead and hold", examples=("moldau brokers list",)
    )
    add_cluster_arguments(listing, list_brokers)

    describe = verbs.add_parser(
        "describe", help="show the replicas of a broker", examples=("moldau brokers describe 2",)
    )
    describe.add_argument("broker", type=int, help="the id of the broker")
    add_cluster_arguments(describe, describe_broker)

    leave = verbs.add_parser(
        "decommission",
        help="move all replicas of a broker to the others",
        description="Shows where the replicas of a broker would go; with --execute they move, and the command waits. "
        "Clients are served throughout. The broker can be stopped then.",
        examples=("moldau brokers decommission 3", "moldau brokers decommission 3 --execute --throttle 50000000"),
    )
    leave.add_argument("broker", type=int, help="the id of the broker")
    leave.add_argument("--execute", action="store_true", help="move them, instead of showing it")
    leave.add_argument("--throttle", type=int64, metavar="BYTES", help="what a broker may copy for this in a second")
    add_cluster_arguments(leave, decommission, json=False)


def list_brokers(arguments: argparse.Namespace) -> int:
    from moldau.client.admin.brokers import describe_cluster

    with cluster_admin(arguments) as admin:
        brokers = describe_cluster(admin, with_fenced=True).brokers
        partitions = _partitions(admin)
    rows: list[dict[str, object]] = [
        {
            "broker": row.broker_id,
            "address": f"{row.host}:{row.port}",
            "rack": row.rack,
            "state": "fenced" if row.is_fenced else "serving",
            "leads": sum(each.leader_id == row.broker_id for each in partitions.values()),
            "replicas": sum(row.broker_id in each.replicas for each in partitions.values()),
            "out_of_sync": sum(
                row.broker_id in each.replicas and row.broker_id not in each.isr for each in partitions.values()
            ),
        }
        for row in brokers
    ]
    columns = ("broker", "address", "rack", "state", "leads", "replicas", "out_of_sync")
    print_rows(rows, columns, as_json=arguments.json)
    return 0


def describe_broker(arguments: argparse.Namespace) -> int:
    broker = arguments.broker
    with cluster_admin(arguments) as admin:
        partitions = _partitions(admin)
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


def _partitions(admin: ClusterAdmin) -> dict[TopicPartition, PartitionDescription]:
    from moldau.client.admin.topics import list_topics
    from moldau.types import TopicPartition

    return {
        TopicPartition(name, row.index): row for name, topic in list_topics(admin).items() for row in topic.partitions
    }


def _sizes(admin: ClusterAdmin, broker: int) -> dict[TopicPartition, tuple[int, str]]:
    """Bytes and log directory of each replica; nothing of a broker that does not serve."""
    from moldau.client.admin.partitions import describe_log_dirs

    if broker not in admin.cluster().broker_ids():
        return {}
    return {
        replica.partition: (replica.size_bytes, directory.path)
        for directory in describe_log_dirs(admin, broker)
        for replica in directory.replicas
        if not replica.is_future
    }


def decommission(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import reassignments

    broker = arguments.broker
    with cluster_admin(arguments) as admin:
        current = {partition: row.replicas for partition, row in _partitions(admin).items()}
        racks = {row.node_id: row.rack for row in admin.cluster().brokers}
        try:
            wanted = reassignments.without_broker(current, broker, racks)
        except ValueError as error:
            raise CommandError(str(error)) from error
        rows: list[dict[str, object]] = [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "replicas": list(current[partition]),
                "will_be": list(replicas),
            }
            for partition, replicas in wanted.items()
        ]
        columns = ("topic", "partition", "replicas", "will_be")
        print_rows(rows, columns, as_json=False, empty=f"broker {broker} holds no replica")
        if not wanted:
            return 0
        if not arguments.execute:
            print("nothing was changed: --execute does it")
            return 0
        _move(admin, {partition: current[partition] for partition in wanted}, wanted, arguments.throttle)
    print(f"broker {broker} holds no replica any more: take it out of the voters (`moldau quorum remove {broker}`), ")
    print(f"stop it, and have it forgotten (`moldau kafka-cluster unregister --id {broker}`)")
    return 0


def _move(
    admin: ClusterAdmin,
    current: Mapping[TopicPartition, tuple[int, ...]],
    wanted: Mapping[TopicPartition, tuple[int, ...]],
    bytes_per_s: int | None,
) -> None:
    """Returns when all is moved, and no throttle is left. Raises CommandError."""
    from moldau.client.admin.partitions import list_reassignments
    from moldau.client.admin.reassignments import end_throttles, reassign, throttle
    from moldau.shell.io.tcp import TCP

    if bytes_per_s is not None:
        throttle(admin, current, wanted, bytes_per_s)
    try:
        for partition, error in reassign(admin, {**wanted}).items():
            if error is not None:
                raise CommandError(f"{partition}: {error}")
        left = len(wanted)
        while left:
            moving = list_reassignments(admin)
            now_left = sum(partition in moving for partition in wanted)
            if now_left != left:
                print(f"{now_left} of {len(wanted)} partitions are still moving", flush=True)
            left = now_left
            if left:
                TCP.pause(POLL_MS)
    finally:
        if bytes_per_s is not None:
            brokers = {broker for replicas in (*current.values(), *wanted.values()) for broker in replicas}
            end_throttles(admin, sorted(brokers), dict.fromkeys(partition.topic for partition in wanted))
