"""`kafka-storage`: formats the directories of a node before its first start, and describes them."""

from __future__ import annotations

import sys
from pathlib import Path

from moldau.cli.arguments import settings_in
from moldau.cli.kafka.levels import levels_to_format, print_dependencies, print_mapping, short
from moldau.cli.kafka.options import ArgumentError, Arguments, Option
from moldau.cli.kafka.scram_arguments import parse_scram_argument
from moldau.cli.kafka.subcommands import OfflineCommand, chosen_command
from moldau.cli.output import CommandError
from moldau.core.config.broker_settings import BrokerSettings, parse_broker_settings
from moldau.core.metadata.features import KRAFT_VERSION, METADATA_VERSION
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import BrokerListener
from moldau.core.metadata.random_uuid import random_uuid
from moldau.core.metadata.releases import FIRST_LEVEL_WITH_SCRAM, metadata_version_name
from moldau.errors import MoldauError
from moldau.ports import Random
from moldau.shell.io.clock import SystemClock
from moldau.shell.io.disk import OsDisk, make_durable_directory
from moldau.shell.io.host_name import registered_host
from moldau.shell.io.random import SystemRandom
from moldau.shell.node.storage_format import (
    META_PROPERTIES,
    MetaProperties,
    check_cluster_id,
    format_directory,
    format_further_directory,
    parse_initial_controllers,
    read_meta_properties,
)
from moldau.types import BrokerId, uuid_to_text
from moldau.wire.protocol.messages.metadata_records import FeatureLevelRecord
from moldau.wire.protocol.messages.raft_records import VotersRecordVoter

SUMMARY = (
    "The Kafka storage tool.\n\nusage: kafka-storage COMMAND --config FILE ...\n\ncommands: info, format, "
    "version-mapping, feature-dependencies, random-uuid"
)

OPTIONS = (
    Option("config", "The file with the settings of the node.", "config file", short="c"),
    Option("cluster-id", "format: the id of the cluster that the node belongs to.", "id", short="t"),
    Option("ignore-formatted", "format: leave directories that are formatted as they are.", short="g"),
    Option("standalone", "format: this node alone is the first controller.", short="s"),
    Option("no-initial-controllers", "format: the node joins controllers that are there already.", short="N"),
    Option(
        "initial-controllers",
        "format: the first controllers, the same for all nodes: id@host:port:directory, separated by commas.",
        "controllers",
        short="I",
    ),
    Option(
        "release-version",
        "format, version-mapping: the levels that belong to this release of Kafka, or to this metadata.version.",
        "name",
        short="r",
    ),
    Option(
        "feature",
        "format: the level of one feature of the new cluster; feature-dependencies: what it needs. May be repeated.",
        "feature=level",
        short="f",
    ),
    Option(
        "add-scram",
        "format: a SCRAM credential that the new cluster begins with, SCRAM-SHA-256=[name=alice,password=secret]; also "
        "iterations, salt and saltedpassword, the latter two in base64. May be repeated.",
        "credential",
        short="S",
    ),
)
_NO_MODE = (
    "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
    "--standalone, --initial-controllers, or --no-initial-controllers."
)
_TWO_MODES = (
    "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. If "
    "you want to use dynamic quorum, please remove controller.quorum.voters and specify "
    "controller.quorum.bootstrap.servers instead."
)


def run(arguments: Arguments) -> int:
    command = chosen_command(arguments, COMMANDS, SUMMARY)
    try:
        command.run(arguments)
    except (ArgumentError, MoldauError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def read_settings(path: str) -> BrokerSettings:
    """The settings of the file. Raises ArgumentError if it cannot be read or names no directory, KafkaError for bad
    settings."""
    try:
        settings = parse_broker_settings(settings_in(path), is_for_start=False)
    except CommandError as error:
        raise ArgumentError(str(error)) from error
    if not settings.log_directories:
        raise ArgumentError(f"{path} names no log.dirs")
    return settings


def _version_mapping(arguments: Arguments) -> None:
    print_mapping(arguments.text("release-version"))


def _dependencies(arguments: Arguments) -> None:
    for text in arguments.texts("feature"):
        name, equals, written = text.partition("=")
        if not equals:
            raise ArgumentError(
                f"Invalid feature format: {text}. Expected format: 'feature=version' (e.g. 'group.version=1')"
            )
        level = short(written)
        if level is None:
            raise ArgumentError(f"Invalid version format: {written} for feature {name}")
        print_dependencies(name, level, f"Feature level {level} is not supported for feature {name}")


def _random_uuid(_: Arguments) -> None:
    print(uuid_to_text(random_uuid(SystemRandom())))


def _info(arguments: Arguments) -> None:
    """Prints the directories. Raises ArgumentError afterwards if a directory is absent or not formatted."""
    found: list[str] = []
    problems: list[str] = []
    properties: MetaProperties | None = None
    for directory in sorted(read_settings(arguments.required("config")).log_directories):
        if not Path(directory).is_dir():
            problems.append(f"{directory} does not exist")
            continue
        found.append(directory)
        own = read_meta_properties(OsDisk(directory))
        if own is None:
            problems.append(f"{directory} is not formatted.")
        properties = properties or own
    _print_list("Found log director", found)
    if properties is not None:
        cluster, directory_id = properties.cluster_id, uuid_to_text(properties.directory_id)
        fields = f"cluster.id={cluster}, directory.id={directory_id}, node.id={properties.node_id}, version=1"
        print(f"Found metadata: {{{fields}}}\n")
    _print_list("Found problem", problems, "", "s")
    if problems:
        raise ArgumentError("")


def _print_list(title: str, lines: list[str], one: str = "y", many: str = "ies") -> None:
    if lines:
        print(f"{title}{one if len(lines) == 1 else many}:")
        print("".join(f"  {line}\n" for line in lines))


def format_node(arguments: Arguments) -> None:
    """Formats all of `log.dirs`; the first one gets the metadata log. Raises ArgumentError, KafkaError,
    StorageFormatError."""
    cluster_id = arguments.required("cluster-id")
    check_cluster_id(cluster_id)
    settings = read_settings(arguments.required("config"))
    _check_named(settings)
    controllers = _first_controllers(arguments, settings)
    random, now_ms = SystemRandom(), SystemClock().now_ms()
    bootstrap, version = _first_records(arguments, settings, random)
    disks = {directory: _opened(directory) for directory in settings.log_directories}
    formatted = {directory: read_meta_properties(disk) for directory, disk in disks.items()}
    known = {directory: properties for directory, properties in formatted.items() if properties is not None}
    for directory in sorted(known):
        _check_owner(directory, known[directory], settings.node_id, cluster_id)
    if known and not arguments.has("ignore-formatted"):
        raise ArgumentError(
            f"Log directory {min(known)} is already formatted. Use --ignore-formatted to ignore this directory "
            "and format the others."
        )
    if all(formatted.values()):
        print("All of the log directories are already formatted.")
        return
    first = formatted[settings.log_directories[0]]
    for directory, disk in disks.items():
        if formatted[directory] is not None:
            continue
        if first is not None:
            print(f"Formatting data directory {directory} with metadata.version {version}.")
            format_further_directory(disk, random, first, now_ms=now_ms, bootstrap=bootstrap)
            continue
        kind = "metadata" if controllers == () else "dynamic metadata voter"
        print(f"Formatting {kind} directory {directory} with metadata.version {version}.")
        first = format_directory(
            disk,
            random,
            now_ms=now_ms,
            node_id=BrokerId(settings.node_id),
            controller_listener=_controller_listener(settings),
            cluster_id=cluster_id,
            initial_controllers=controllers,
            bootstrap=bootstrap,
        )


def _check_named(settings: BrokerSettings) -> None:
    """Raises ArgumentError for a missing setting that each node must set itself: a default would be wrong."""
    for name in ("process.roles", "node.id"):
        if name not in settings.texts:
            raise ArgumentError(f'Missing required configuration "{name}" which has no default value.')


def _check_owner(directory: str, found: MetaProperties, node_id: int, cluster_id: str) -> None:
    """Raises ArgumentError if the directory belongs to another cluster or node: new directories must not join it."""
    path = f"{directory}/{META_PROPERTIES}"
    if found.cluster_id != cluster_id:
        raise ArgumentError(f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {found.cluster_id}")
    if found.node_id != node_id:
        raise ArgumentError(
            f"Stored node id {found.node_id} doesn't match previous node id {node_id} in {path}. If you moved your "
            "data, make sure your configured node id matches. If you intend to create a new node, you should remove "
            "all data in your data directories."
        )


def _first_records(
    arguments: Arguments, settings: BrokerSettings, random: Random
) -> tuple[tuple[MetadataRecord, ...], str]:
    """The first records of the new cluster in Kafka's order, and the name of its `metadata.version`."""
    levels = levels_to_format(
        arguments.text("release-version"),
        arguments.texts("feature"),
        has_dynamic_quorum=not settings.controller_quorum_voters
        and (
            not settings.is_controller or arguments.has("standalone", "initial-controllers", "no-initial-controllers")
        ),
    )
    level = levels.pop(METADATA_VERSION)
    del levels[KRAFT_VERSION]  # it is stored in a control record
    records: list[MetadataRecord] = [FeatureLevelRecord(METADATA_VERSION, level)]
    records += [FeatureLevelRecord(name, levels[name]) for name in sorted(levels) if levels[name]]
    credentials = arguments.texts("add-scram")
    if credentials and level < FIRST_LEVEL_WITH_SCRAM:
        raise ArgumentError(
            f"SCRAM is only supported in {METADATA_VERSION} {metadata_version_name(FIRST_LEVEL_WITH_SCRAM)} or later."
        )
    records += [parse_scram_argument(text, random) for text in credentials]
    return tuple(records), metadata_version_name(level)


def _opened(directory: str) -> OsDisk:
    try:
        make_durable_directory(directory)
    except OSError as error:
        raise ArgumentError(f"cannot make {directory}: {error.strerror or error}") from error
    return OsDisk(directory)


def _controller_listener(settings: BrokerSettings) -> BrokerListener:
    endpoint = next(iter(settings.advertised_controller_endpoints), None)
    if not settings.is_controller:
        return BrokerListener("CONTROLLER", "localhost", 0)  # it has no listener
    if endpoint is None:
        raise ArgumentError(
            "The controller.listener.names must contain at least one value appearing in the 'listeners' configuration "
            "when running the KRaft controller role"
        )
    return BrokerListener(endpoint.name, registered_host(endpoint.host), endpoint.port)


def _first_controllers(arguments: Arguments, settings: BrokerSettings) -> tuple[VotersRecordVoter, ...] | None:
    """The first controllers in the form that `format_directory` takes."""
    text, is_alone = arguments.text("initial-controllers"), arguments.has("standalone")
    joins = arguments.has("no-initial-controllers")
    if text is not None and (is_alone or joins):
        other = "--standalone/-s" if is_alone else "--no-initial-controllers/-N"
        raise ArgumentError(f"argument --initial-controllers/-I: not allowed with argument {other}")
    if is_alone and joins:
        raise ArgumentError("argument --no-initial-controllers/-N: not allowed with argument --standalone/-s")
    if is_alone and not settings.is_controller:
        raise ArgumentError("You can only use --standalone on a controller.")
    if settings.controller_quorum_voters:
        if text is not None or is_alone:
            raise ArgumentError(_TWO_MODES)
        return ()
    if joins or not settings.is_controller:
        return ()
    if text is None and not is_alone:
        raise ArgumentError(_NO_MODE)
    return None if text is None else parse_initial_controllers(text, _controller_listener(settings).name)


COMMANDS = {
    "format": OfflineCommand(
        required=("config", "cluster-id"),
        optional=(
            "ignore-formatted",
            "standalone",
            "no-initial-controllers",
            "initial-controllers",
            "release-version",
            "feature",
            "add-scram",
        ),
        run=format_node,
    ),
    "info": OfflineCommand(required=("config",), run=_info),
    "version-mapping": OfflineCommand(optional=("release-version",), run=_version_mapping),
    "feature-dependencies": OfflineCommand(required=("feature",), run=_dependencies),
    "random-uuid": OfflineCommand(run=_random_uuid),
}
