"""`kafka-metadata-quorum`: who leads the quorum of the metadata log, and how far the others are."""

from __future__ import annotations

import json
import time
from functools import partial

from moldau.cli.kafka.connection import run_on_cluster
from moldau.cli.kafka.options import ArgumentError, Arguments, Option, bootstrap_server, command_config
from moldau.cli.kafka.subcommands import BOOTSTRAP_CONTROLLER, ClusterCommand, check_connection, chosen_command
from moldau.cli.kafka.tables import print_table
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.quorum import QuorumInfo, QuorumReplica, describe_quorum
from moldau.types import ZERO_UUID, uuid_to_text

SUMMARY = (
    "This tool describes kraft metadata quorum status.\n\n"
    "usage: kafka-metadata-quorum --bootstrap-server HOST:PORT COMMAND ...\n\ncommands: describe"
)

OPTIONS = (
    bootstrap_server(is_required=False),
    BOOTSTRAP_CONTROLLER,
    command_config(),
    Option("status", "describe: the quorum as a whole."),
    Option("replication", "describe: each node."),
    Option("human-readable", "describe --replication: how long ago, instead of times in ms."),
)
_COLUMNS = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)
_NAME_WIDTH = 24


def run(arguments: Arguments) -> int:
    command = chosen_command(arguments, _COMMANDS, SUMMARY)
    check_connection(arguments)
    return run_on_cluster(arguments, partial(command.run, arguments))


def _describe(arguments: Arguments, admin: ClusterAdmin) -> None:
    if arguments.has("status") and arguments.has("replication"):
        raise ArgumentError("Only one of --status or --replication should be specified with describe sub-command")
    if arguments.has("status"):
        if arguments.has("human-readable"):
            raise ArgumentError("The option --human-readable is only supported along with --replication")
        _print_status(admin.cluster().cluster_id, describe_quorum(admin))
    elif arguments.has("replication"):
        _print_replication(describe_quorum(admin), is_readable=arguments.has("human-readable"))
    else:
        raise ArgumentError("One of --status or --replication must be specified with describe sub-command")


def _print_status(cluster_id: str, quorum: QuorumInfo) -> None:
    slowest = max(quorum.voters, key=quorum.lag_of)
    lag_ms = 0
    if slowest.node_id != quorum.leader_id:
        times = quorum.leader.last_caught_up_ms, slowest.last_caught_up_ms
        lag_ms = -1 if times[0] is None or times[1] is None else times[0] - times[1]
    rows = {
        "ClusterId": cluster_id,
        "LeaderId": quorum.leader_id,
        "LeaderEpoch": quorum.leader_epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": quorum.lag_of(slowest),
        "MaxFollowerLagTimeMs": lag_ms,
        "CurrentVoters": _nodes(quorum.voters),
        "CurrentObservers": _nodes(quorum.observers),
    }
    for name, value in rows.items():
        print(f"{name + ':':<{_NAME_WIDTH}}{value}")


def _nodes(replicas: tuple[QuorumReplica, ...]) -> str:
    return "[" + ", ".join(json.dumps(_node(replica)) for replica in replicas) + "]"


def _node(replica: QuorumReplica) -> dict[str, object]:
    node: dict[str, object] = {"id": replica.node_id}
    if replica.directory_id is not None:
        node["directoryId"] = uuid_to_text(replica.directory_id)
    if replica.endpoints:
        node["endpoints"] = replica.endpoints
    return node


def _print_replication(quorum: QuorumInfo, *, is_readable: bool) -> None:
    """The leader first, then the voters and the observers, each by id."""
    followers = sorted(quorum.voters, key=lambda replica: replica.node_id)
    observers = sorted(quorum.observers, key=lambda replica: replica.node_id)
    leader = quorum.leader
    now_ms = int(time.time() * 1_000)

    def moment(time_ms: int | None) -> str:
        if time_ms is None:
            return "-1" if not is_readable else "unknown"
        return f"{now_ms - time_ms} ms ago" if is_readable else str(time_ms)

    rows = [
        (
            replica.node_id,
            uuid_to_text(replica.directory_id or ZERO_UUID),
            replica.log_end_offset,
            quorum.lag_of(replica),
            moment(replica.last_fetch_ms),
            moment(replica.last_caught_up_ms),
            replica.status,
        )
        for replica in (leader, *(other for other in (*followers, *observers) if other is not leader))
    ]
    print_table(_COLUMNS, rows)


_COMMANDS = {"describe": ClusterCommand(optional=("status", "replication", "human-readable"), run=_describe)}
