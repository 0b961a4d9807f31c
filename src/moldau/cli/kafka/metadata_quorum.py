"""`kafka-metadata-quorum`: leader, voters and observers of the metadata quorum, and changes of voters."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import partial

import msgspec

from moldau.cli.kafka.connection import read_properties, run_on_cluster
from moldau.cli.kafka.options import ArgumentError, Arguments, Option, bootstrap_server, command_config
from moldau.cli.kafka.subcommands import BOOTSTRAP_CONTROLLER, ClusterCommand, check_connection, chosen_command
from moldau.cli.kafka.tables import print_table
from moldau.client.admin.brokers import unregister_controller
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.quorum import QuorumInfo, QuorumReplica, add_voter, describe_quorum, remove_voter
from moldau.core.config.listeners import Endpoint, parse_endpoints
from moldau.errors import KafkaError
from moldau.shell.io.disk import OsDisk
from moldau.shell.io.host_name import registered_host
from moldau.shell.node.storage_format import read_meta_properties
from moldau.types import ZERO_UUID, Uuid, uuid_from_text, uuid_to_text

SUMMARY = (
    "This tool describes kraft metadata quorum status.\n\n"
    "usage: kafka-metadata-quorum --bootstrap-server HOST:PORT COMMAND ...\n\n"
    "commands: describe, add-controller, remove-controller"
)

OPTIONS = (
    bootstrap_server(is_required=False),
    BOOTSTRAP_CONTROLLER,
    command_config(),
    Option("status", "describe: the quorum as a whole."),
    Option("replication", "describe: each node."),
    Option("human-readable", "describe --replication: how long ago, instead of times in ms."),
    Option("controller-id", "remove-controller: the id of the controller.", "id", kind="int", short="i"),
    Option("controller-directory-id", "remove-controller: the id of its metadata directory.", "id", short="d"),
    Option("unregister", "remove-controller: also forget the controller."),
    Option("dry-run", "add-controller, remove-controller: only say what would be done."),
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
    command = chosen_command(arguments, COMMANDS, SUMMARY)
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
    """Prints the leader first, then the voters and the observers, each by id."""
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


def _add_controller(arguments: Arguments, admin: ClusterAdmin) -> None:
    """Adds the controller with the settings in `--command-config`; runs on that controller's machine."""
    path = arguments.text("command-config")
    if path is None:
        raise ArgumentError(
            "You must supply the configuration file of the controller you are adding when using add-controller."
        )
    node_id, directory_id, endpoints = controller_identity(read_properties(path))
    is_rehearsal = arguments.has("dry-run")
    if not is_rehearsal:
        add_voter(admin, node_id, directory_id, tuple((each.name, each.host, each.port) for each in endpoints))
    done = "DRY RUN of adding" if is_rehearsal else "Added"
    told = f"{done} controller {node_id} with directory id {uuid_to_text(directory_id)}"
    print(f"{told} and endpoints: {', '.join(map(str, endpoints))}")


def controller_identity(settings: Mapping[str, str]) -> tuple[int, Uuid, list[Endpoint]]:
    """Id, metadata directory and endpoints of a controller. Raises ArgumentError for settings without the controller
    role."""
    valid = "Is this a valid controller configuration file?"
    if "node.id" not in settings:
        raise ArgumentError(f"node.id not found in configuration file. {valid}")
    if not settings["node.id"].strip().isdecimal():
        raise ArgumentError(f"node.id was negative in configuration file. {valid}")
    if "controller" not in [role.strip() for role in settings.get("process.roles", "").split(",")]:
        raise ArgumentError(f"process.roles did not contain 'controller' in configuration file. {valid}")
    directory = settings.get("metadata.log.dir") or settings.get("log.dirs", "").split(",")[0].strip()
    if not directory:
        raise ArgumentError(f"Neither metadata.log.dir nor log.dirs were found. {valid}")
    if "controller.listener.names" not in settings:
        raise ArgumentError(f"controller.listener.names was not found. {valid}")
    properties = read_meta_properties(OsDisk(directory))
    if properties is None:
        raise ArgumentError(f"{directory} is not formatted.")
    return int(settings["node.id"]), properties.directory_id, _controller_endpoints(settings)


def _controller_endpoints(settings: Mapping[str, str]) -> list[Endpoint]:
    """The advertised address of the controller, or else that of its listener."""
    known: dict[str, Endpoint] = {}
    for setting in ("listeners", "advertised.listeners"):
        items = tuple(item.strip() for item in settings.get(setting, "").split(",") if item.strip())
        known |= {point.name: point for point in parse_endpoints(setting, items)}
    names = [name.strip().upper() for name in settings["controller.listener.names"].split(",")]
    found = [known[name] for name in names if name in known]
    return [msgspec.structs.replace(point, host=registered_host(point.host)) for point in found]


def _remove_controller(arguments: Arguments, admin: ClusterAdmin) -> None:
    node_id, text = arguments.integer("controller-id") or 0, arguments.required("controller-directory-id")
    if node_id < 0:
        raise ArgumentError(f"Invalid negative --controller-id: {node_id}")
    try:
        directory_id = uuid_from_text(text)
    except ValueError as error:
        raise ArgumentError(f"Failed to parse --controller-directory-id: {error}") from error
    is_rehearsal, is_forgotten = arguments.has("dry-run"), arguments.has("unregister")
    try:
        if not is_rehearsal:
            remove_voter(admin, node_id, directory_id)
    except KafkaError as error:
        if not is_forgotten:
            raise
        raise ArgumentError(f"Failed to remove KRaft voter {node_id}: {_later(error, node_id)}") from error
    done = "DRY RUN of removing" if is_rehearsal else "Removed"
    print(f"{done} KRaft controller {node_id} with directory id {uuid_to_text(directory_id)}")
    if not is_forgotten:
        return
    try:
        if not is_rehearsal:
            unregister_controller(admin, node_id)
    except KafkaError as error:
        raise ArgumentError(f"Failed to unregister controller {node_id}: {_later(error, node_id)}") from error
    print(f"{'DRY RUN of unregistering' if is_rehearsal else 'Unregistered'} KRaft controller {node_id}")


def _later(error: KafkaError, node_id: int) -> str:
    advice = f"run `kafka-cluster.sh unregister-controller --id {node_id}`"
    return f"{error.message or error.name}. To unregister the controller from the cluster, {advice}."


COMMANDS = {
    "describe": ClusterCommand(optional=("status", "replication", "human-readable"), run=_describe),
    "add-controller": ClusterCommand(optional=("dry-run",), run=_add_controller),
    "remove-controller": ClusterCommand(
        required=("controller-id", "controller-directory-id"),
        optional=("dry-run", "unregister"),
        run=_remove_controller,
    ),
}
