"""Formats a log directory, file by file as Apache Kafka 4.3 `kafka-storage format --standalone` does.

    meta.properties                                                      the node and the cluster of this directory
    bootstrap.checkpoint                                                 the feature levels of a new cluster
    __cluster_metadata-0/00000000000000000000-0000000000.checkpoint      the first voters (KIP-853), unless configured

`meta.properties` is written last: a directory without it is not formatted, regardless of its other files.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec

from moldau.core.log.directories.directory import parse_directory_name
from moldau.core.metadata.features import FORMATTED_LEVELS
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import BrokerListener
from moldau.core.metadata.random_uuid import random_uuid
from moldau.core.metadata.snapshot import (
    BOOTSTRAP_CHECKPOINT,
    METADATA_DIRECTORY,
    QuorumControl,
    Snapshot,
    encode_snapshot,
    snapshot_file_name,
)
from moldau.errors import MoldauError
from moldau.ports import Disk, Random
from moldau.types import BrokerId, Offset, Uuid, uuid_from_text, uuid_to_text
from moldau.wire.protocol.messages.metadata_records import FeatureLevelRecord
from moldau.wire.protocol.messages.raft_records import Endpoint, KRaftVersionFeature, VotersRecord, VotersRecordVoter

META_PROPERTIES = "meta.properties"
KRAFT_VERSION = 1

_CLUSTER_ID = re.compile(r"[!-\[\]-~]+")
"""Characters that `meta.properties` preserves: a blank, a backslash or a line end would be read back as another id."""
_CONTROLLER = re.compile(r"([0-9]{1,9})@(\[[0-9a-fA-F:.%\w]*\]|[^:\[\]]+):([0-9]{1,5}):([\w-]{22})")

# strftime's %a and %b use the host's language
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class StorageFormatError(MoldauError):
    """The directory is not as required; the message is one sentence for the operator."""


class DamagedPropertiesError(StorageFormatError):
    """`meta.properties` does not say which node owns the directory: it is damaged, or of another version."""


class MetaProperties(msgspec.Struct, frozen=True):
    """The contents of `meta.properties`: the node and the cluster of this directory."""

    node_id: BrokerId
    cluster_id: str
    directory_id: Uuid


def format_directory(
    disk: Disk,
    random: Random,
    *,
    now_ms: int,
    node_id: BrokerId,
    controller_listener: BrokerListener,
    cluster_id: str | None = None,
    initial_controllers: tuple[VotersRecordVoter, ...] | None = None,
    bootstrap: tuple[MetadataRecord, ...] | None = None,
) -> MetaProperties:
    """Formats the root of `disk` as the directory of a new cluster, durably; makes up a cluster id if none is given.

    `initial_controllers`: the first voters, including this node with its directory id; None: this node alone, at
    `controller_listener`; empty: `controller.quorum.voters` names them, or the controllers that it joins do.
    `bootstrap`: the first records of the cluster, with its feature levels before all others; None: FORMATTED_LEVELS.
    Raises StorageFormatError if the directory is already formatted, or this node is not among the first voters.
    """
    if disk.exists(META_PROPERTIES):
        raise StorageFormatError("the directory is formatted already")
    properties = MetaProperties(
        node_id,
        uuid_to_text(random_uuid(random)) if cluster_id is None else cluster_id,
        _directory_id(node_id, initial_controllers or (), random),
    )
    disk.make_directory(METADATA_DIRECTORY)
    levels = _write_bootstrap(disk, bootstrap, now_ms)
    first_voters = initial_controllers
    if first_voters is None:
        first_voters = (_voter(node_id, properties.directory_id, controller_listener),)
    if first_voters:
        voters = Snapshot((), QuorumControl(KRAFT_VERSION, VotersRecord(voters=first_voters)), now_ms)
        voters_path = f"{METADATA_DIRECTORY}/{snapshot_file_name(Offset(0), 0)}"
        _write(disk, voters_path, encode_snapshot(voters, levels, now_ms=now_ms))
    disk.flush_directory(METADATA_DIRECTORY)
    # its flush of the root also makes the files above durable, because they were created before
    write_meta_properties(disk, properties, now_ms)
    return properties


def check_cluster_id(text: str) -> None:
    """Raises StorageFormatError for text that cannot be a cluster id, such as an unset shell variable."""
    if _CLUSTER_ID.fullmatch(text) is None:
        raise StorageFormatError(
            f"{text!a} is no cluster id: one has letters, digits and signs of ASCII, without blanks and backslashes "
            "(`moldau kafka-storage random-uuid` makes one)"
        )


def find_use(disk: Disk) -> str | None:
    """The first entry in the root of `disk` that no format made, a partition or metadata; None if there is none."""
    voters_file = snapshot_file_name(Offset(0), 0)
    for name in disk.list_directory(METADATA_DIRECTORY):
        if name != voters_file:
            return f"{METADATA_DIRECTORY}/{name}"
    return find_partition(disk)


def find_partition(disk: Disk) -> str | None:
    """The first nonempty partition directory in the root of `disk`."""
    for name in disk.list_directory(""):
        if parse_directory_name(name) is not None and disk.is_directory(name) and disk.list_directory(name):
            return name
    return None


def format_further_directory(
    disk: Disk,
    random: Random,
    properties: MetaProperties,
    *,
    now_ms: int,
    bootstrap: tuple[MetadataRecord, ...] | None = None,
) -> MetaProperties:
    """Formats the root of `disk` as a further log directory of the node whose first one has `properties`, durably."""
    own = MetaProperties(properties.node_id, properties.cluster_id, random_uuid(random))
    _write_bootstrap(disk, bootstrap, now_ms)
    write_meta_properties(disk, own, now_ms)
    return own


def _write_bootstrap(disk: Disk, records: tuple[MetadataRecord, ...] | None, now_ms: int) -> dict[str, int]:
    """Returns the feature levels in the records."""
    if records is None:
        records = tuple(FeatureLevelRecord(name, level) for name, level in FORMATTED_LEVELS)
    levels = {record.name: record.feature_level for record in records if isinstance(record, FeatureLevelRecord)}
    _write(disk, BOOTSTRAP_CHECKPOINT, encode_snapshot(Snapshot(records, QuorumControl(), 0), levels, now_ms=now_ms))
    return levels


def _write(disk: Disk, path: str, data: bytes) -> None:
    """Writes and flushes the whole file. Its name is not durable yet, and a format that crashed may have left half of
    the file."""
    file = disk.open(path)
    file.truncate(0)
    file.append(data)
    file.flush()
    file.close()


def _directory_id(node_id: BrokerId, controllers: tuple[VotersRecordVoter, ...], random: Random) -> Uuid:
    """This node's directory id among the first voters, else a new one."""
    if not controllers:
        return random_uuid(random)
    for voter in controllers:
        if voter.voter_id == node_id:
            return voter.voter_directory_id
    raise StorageFormatError(f"node {node_id} is not among the initial controllers")


def _voter(node_id: BrokerId, directory_id: Uuid, listener: BrokerListener) -> VotersRecordVoter:
    endpoints = (Endpoint(listener.name, listener.host, listener.port),)
    return VotersRecordVoter(node_id, directory_id, endpoints, KRaftVersionFeature(0, KRAFT_VERSION))


def parse_initial_controllers(text: str, listener_name: str) -> tuple[VotersRecordVoter, ...]:
    """`id@host:port:directory`, separated by commas. Raises StorageFormatError."""
    voters = []
    for item in text.split(","):
        match = _CONTROLLER.fullmatch(item.strip())
        if match is None or not 0 < int(match[3]) <= 65_535:
            raise StorageFormatError(f"{item.strip()!r} is no controller: one is written ID@HOST:PORT:DIRECTORY")
        try:
            directory_id = uuid_from_text(match[4])
        except ValueError as error:
            raise StorageFormatError(f"{match[4]} is no directory id: {error}") from error
        listener = BrokerListener(listener_name, match[2].strip("[]"), int(match[3]))
        voters.append(_voter(BrokerId(int(match[1])), directory_id, listener))
    if len({voter.voter_id for voter in voters}) != len(voters):
        raise StorageFormatError("a node id stands twice among the initial controllers")
    return tuple(voters)


def write_meta_properties(disk: Disk, properties: MetaProperties, now_ms: int) -> None:
    """In the format of java.util.Properties, with the empty comment and the date that Kafka's file has. Durable when it
    returns."""
    date = datetime.fromtimestamp(now_ms // 1000, UTC)
    day, month = _DAYS[date.weekday()], _MONTHS[date.month - 1]
    lines = (
        "#",
        f"#{day} {month} {date:%d %H:%M:%S} UTC {date.year}",
        f"node.id={properties.node_id}",
        f"directory.id={uuid_to_text(properties.directory_id)}",
        "version=1",
        f"cluster.id={properties.cluster_id}",
    )
    disk.replace_file(META_PROPERTIES, "".join(line + "\n" for line in lines).encode("ascii"))


def read_meta_properties(disk: Disk) -> MetaProperties | None:
    """The properties of this directory; None if it is not formatted. Raises DamagedPropertiesError if they cannot be
    read."""
    if not disk.exists(META_PROPERTIES):
        return None
    values = _parse_properties(disk.read_file(META_PROPERTIES).decode("latin-1"))
    version = values.get("version")
    if version is None:
        raise DamagedPropertiesError(f"{META_PROPERTIES} is damaged: the line `version=1` is missing")
    if version != "1":
        raise DamagedPropertiesError(f"{META_PROPERTIES}: version {version} is not supported, only 1")
    try:
        return MetaProperties(
            BrokerId(int(values["node.id"])), values["cluster.id"], uuid_from_text(values["directory.id"])
        )
    except (KeyError, ValueError) as error:
        raise DamagedPropertiesError(f"{META_PROPERTIES}: {error} is missing or no value") from error


def _parse_properties(text: str) -> dict[str, str]:
    """Parses lines `name=value`: skips comments and blank lines, and unescapes backslashes."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            name, _, value = stripped.partition("=")
            values[name.strip()] = value.strip().replace("\\", "")
    return values
