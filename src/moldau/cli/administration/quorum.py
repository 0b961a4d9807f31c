"""`moldau quorum describe|add|remove|recover`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.arguments import Subparsers, int32
from moldau.cli.cluster import add_cluster_arguments, cluster_admin
from moldau.cli.output import CommandError, print_rows
from moldau.types import counted

if TYPE_CHECKING:
    from moldau.client.admin.client import ClusterAdmin
    from moldau.client.admin.quorum import QuorumInfo
    from moldau.core.config.broker_settings import BrokerSettings
    from moldau.ports import Disk
    from moldau.shell.node.recover import Remains
    from moldau.types import TopicPartition

MAX_NAMED = 20
NAME_WIDTH = 21
CHANGE_PATIENCE_S = 10.0
CHANGE_PAUSE_S = 0.2
"""Pause between two tries of a change of voters. Apache Kafka's leader rejects a change at once with REQUEST_TIMED_OUT
until its epoch is committed; a leader rejects it the same way while another change is in progress."""


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("quorum", help="voters of the metadata quorum; recover a cluster from one node")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    describe = verbs.add_parser(
        "describe", help="show the voters and observers, and how far each is", examples=("moldau quorum describe",)
    )
    add_cluster_arguments(describe, describe_voters)

    add = verbs.add_parser(
        "add",
        help="make a node that follows the metadata log a voter",
        examples=("moldau quorum add node-4.properties -b 10.0.0.1:9092",),
    )
    add.add_argument("config", metavar="FILE", help="the settings of that node, on the machine where it runs")
    add_cluster_arguments(add, add_voter, json=False, rights={"cluster": "alter"})

    remove = verbs.add_parser("remove", help="take a voter out", examples=("moldau quorum remove 4",))
    remove.add_argument("node", type=int32, help="the id of the node")
    add_cluster_arguments(remove, remove_voter, json=False, rights={"cluster": "alter"})

    recover = verbs.add_parser(
        "recover",
        help="let the only remaining node continue alone",
        description="For a cluster that has lost a majority of its voters for good. Run on the stopped node that has "
        "survived, this makes it the only voter, and the leader of every partition that it has a replica of. It says "
        "first from which offset on records of each partition may be missing, and asks. The other nodes must not come "
        "back with their old directories.",
        examples=("moldau quorum recover node-1.properties", "moldau quorum recover node-1.properties --yes"),
    )
    recover.add_argument("config", metavar="FILE", help="the settings of the node, as `moldau up --config` takes them")
    recover.add_argument("--yes", action="store_true", help="do not ask")
    recover.set_defaults(run=recover_node)


def describe_voters(arguments: argparse.Namespace) -> int:
    from moldau.types import uuid_to_text

    with cluster_admin(arguments) as admin:
        quorum = quorum_of(admin)
    now_ms = time.time_ns() // 1_000_000
    rows: list[dict[str, object]] = [
        {
            "node": replica.node_id,
            "role": replica.status.lower(),
            "directory": None if replica.directory_id is None else uuid_to_text(replica.directory_id),
            "log_end": replica.log_end_offset,
            "lag": quorum.lag_of(replica),
            "heard_ms_ago": None if replica.last_fetch_ms is None else max(0, now_ms - replica.last_fetch_ms),
            "address": ",".join(replica.endpoints) or None,
        }
        for group in (quorum.voters, quorum.observers)
        for replica in sorted(group, key=lambda each: each.node_id)
    ]
    columns = ("node", "role", "directory", "log_end", "lag", "heard_ms_ago", "address")
    print_rows(rows, columns, as_json=arguments.json)
    return 0


def quorum_of(admin: ClusterAdmin) -> QuorumInfo:
    """Raises CommandError if the quorum has no leader, KafkaError for all other errors."""
    from moldau.client.admin.quorum import describe_quorum
    from moldau.errors import KafkaError

    try:
        return describe_quorum(admin)
    except KafkaError as error:
        if error.name not in ("NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE"):
            raise
        raise CommandError(
            "no controller is active: a majority of the voters must run and reach each other (an election takes a "
            "moment)"
        ) from error


def add_voter(arguments: argparse.Namespace) -> int:
    from moldau.cli.kafka.connection import read_properties
    from moldau.cli.kafka.metadata_quorum import controller_identity
    from moldau.cli.kafka.options import ArgumentError
    from moldau.client.admin import quorum

    try:
        node_id, directory_id, endpoints = controller_identity(read_properties(arguments.config))
    except ArgumentError as error:
        raise CommandError(str(error)) from error
    points = tuple((each.name, each.host, each.port) for each in endpoints)
    with cluster_admin(arguments) as admin:

        def is_voter() -> bool:
            voters = quorum.describe_quorum(admin).voters
            return any((each.node_id, each.directory_id) == (node_id, directory_id) for each in voters)

        change_voters(lambda: quorum.add_voter(admin, node_id, directory_id, points), is_voter)
    print(f"node {node_id} is a voter")
    return 0


def remove_voter(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import quorum

    with cluster_admin(arguments) as admin:
        voters = quorum_of(admin).voters
        found = next((each for each in voters if each.node_id == arguments.node), None)
        if found is None:
            known = ", ".join(str(each.node_id) for each in voters)
            raise CommandError(f"node {arguments.node} is no voter: the voters are {known}")
        directory_id = found.directory_id
        if directory_id is None:
            raise CommandError("the voters are those of controller.quorum.voters, and do not change while nodes run")

        def is_gone() -> bool:
            return all(each.node_id != arguments.node for each in quorum.describe_quorum(admin).voters)

        change_voters(lambda: quorum.remove_voter(admin, arguments.node, directory_id), is_gone)
    print(f"node {arguments.node} is no voter any more")
    return 0


def change_voters(
    ask: Callable[[], None],
    is_done: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Retries, within a bound, while the leader cannot make the change yet. A request that timed out may have taken
    effect, so this checks first. Raises KafkaError."""
    from moldau.errors import ERROR_CODES, KafkaError

    end_s = clock() + CHANGE_PATIENCE_S
    while True:
        try:
            return ask()
        except KafkaError as error:
            if error.code != ERROR_CODES["REQUEST_TIMED_OUT"] or clock() >= end_s:
                raise
        pause(CHANGE_PAUSE_S)
        if is_done():
            return None


def recover_node(arguments: argparse.Namespace) -> int:
    """Exit code 0 when it is done; 1 if the user declined."""
    from moldau.cli.nodes.log_repair import locked
    from moldau.shell.io.host_name import registered_host
    from moldau.shell.node.recover import look_at_remains, recover_alone
    from moldau.wire.protocol.messages.raft_records import Endpoint

    settings = _settings(arguments.config)
    point = next(iter(settings.advertised_controller_endpoints), None)
    if point is None:
        raise CommandError(f"{arguments.config} names no listener of controller.listener.names")
    now_ms = time.time_ns() // 1_000_000
    with ExitStack() as locks:
        disk, *further = [locks.enter_context(locked(Path(path))) for path in settings.log_directories]
        _print_cost(look_at_remains(disk, now_ms=now_ms), (disk, *further), now_ms)
        if not arguments.yes and not _is_wanted():
            print("nothing was changed")
            return 1
        endpoint = Endpoint(point.name, registered_host(point.host), point.port)
        remains = recover_alone(disk, further, endpoint, now_ms=now_ms)
    print(f"done: start node {remains.properties.node_id}, which is a cluster of its own now")
    return 0


def _settings(path: str) -> BrokerSettings:
    from moldau.cli.kafka.options import ArgumentError
    from moldau.cli.kafka.storage import read_settings
    from moldau.errors import KafkaError

    try:
        return read_settings(path)
    except (ArgumentError, KafkaError) as error:
        raise CommandError(str(error)) from error


def _print_cost(remains: Remains, disks: Sequence[Disk], now_ms: int) -> None:
    survivor, node_id = remains.survivor, remains.properties.node_id
    _print_replicas(remains, disks, now_ms)
    others = ", ".join(str(voter) for voter in remains.voter_ids if voter != node_id)
    until = _moment(remains.known_until_ms)
    whole = counted(len(survivor.whole), "partition")
    print(f"node {node_id} of cluster {remains.properties.cluster_id} becomes the only voter of the metadata quorum")
    print(f"  voters until now   {others or 'those of controller.quorum.voters'}: they must not start again so")
    print(f"  metadata           the last change that came to this node is of {until}: later ones of topics,")
    print("                     settings and groups are lost, and nobody here knows what was in sync after them")
    print(f"  in sync then       {whole}: every record is here that acks=all acknowledged")
    print("                     while this node ran beside the others; what they took without it is missing")
    print(f"  not in sync        {_listed(survivor.lacking)}: their newest records may be missing here")
    print(f"  without a replica  {_listed(survivor.gone)}: where a broker is left that has them in sync")
    print("                     it leads them again once it has joined; else nobody has their records")
    _print_live_brokers(remains)
    if survivor.whole or survivor.lacking:
        print("With min.insync.replicas above 1 producers wait until nodes with the ids of the lost ones join anew.")


def _print_live_brokers(remains: Remains) -> None:
    """Asks the other brokers, for a few seconds at most, whether one of them has the records that would be lost
    here."""
    from moldau.shell.node.live_brokers import find_live_brokers
    from moldau.transport.network import TcpNetwork

    found = {broker.broker_id: broker for broker in asyncio.run(find_live_brokers(remains, TcpNetwork()))}
    silent = [str(broker.broker_id) for broker in remains.others if broker.broker_id not in found]
    if silent:
        print(f"  not answering      broker {', '.join(silent)}")
    for broker_id, broker in found.items():
        named = f"  broker {broker_id}".ljust(NAME_WIDTH) + f"answers at {broker.address.host}:{broker.address.port}"
        if not broker.ahead:
            print(f"{named} and has no record that would be lost")
            continue
        print(f"{named} and is in sync in {counted(len(broker.ahead), 'partition')} in which this")
        print(f"{' ' * NAME_WIDTH}node is not: {_listed(broker.ahead)}. What only broker {broker_id} has of them")
        print(f"{' ' * NAME_WIDTH}would be lost: stop that broker and recover its node instead of this one")


def _print_replicas(remains: Remains, disks: Sequence[Disk], now_ms: int) -> None:
    """Prints the offset from which each partition may lack records, replicas that are not in sync first."""
    from moldau.shell.node.recover import KeptReplica, look_at_replicas

    kept = look_at_replicas(disks, now_ms=now_ms)
    nothing = KeptReplica(0, 0)
    rows: list[dict[str, object]] = [
        {
            "partition": str(partition),
            "in_sync": "yes" if is_in_sync else "no",
            "may_lack_from": kept.get(partition, nothing).high_watermark,
            "log_end": kept.get(partition, nothing).log_end_offset,
        }
        for is_in_sync, partitions in ((False, remains.survivor.lacking), (True, remains.survivor.whole))
        for partition in partitions
    ]
    if not rows:
        return
    print("Where this node was not in sync, and wherever the others went on without it, records may be missing from")
    print("the offset `may lack from` on: those up to `log end` are here, but others may have stood in their places.")
    print_rows(rows, ("partition", "in_sync", "may_lack_from", "log_end"), as_json=False)


def _moment(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return "an unknown time"
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(timestamp_ms // 1_000))


def _listed(partitions: Sequence[TopicPartition]) -> str:
    if not partitions:
        return "no partition"
    named = ", ".join(map(str, partitions[:MAX_NAMED]))
    return named if len(partitions) <= MAX_NAMED else f"{named} and {len(partitions) - MAX_NAMED} more"


def _is_wanted() -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandError("nothing was changed: --yes does it without asking")
    return input("Go on? [y/N] ").strip().lower() in ("y", "yes")
