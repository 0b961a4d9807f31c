"""`moldau log repair` and `moldau log strays` on a log directory whose broker is stopped.

A repair truncates each log that a start would reject at its first damage, as recovery does above the recovery point.
The part after the damage is kept in `.cut-` files; nothing is removed. On a DryRunDisk it reports the same and changes
nothing. Entries that are no longer true are removed from the two files that record how far flushes had come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.log.directories.directory import LogDirectory, is_stray_name, parse_stray_name
from moldau.core.log.directories.health import DirectoryHealth
from moldau.core.log.files.checkpoint import CLEAN_SHUTDOWN_MARK
from moldau.core.log.files.flushed_offset import FLUSHED_OFFSET, FlushedOffset
from moldau.core.log.log import Log
from moldau.core.log.recovery.cut import set_aside
from moldau.core.log.settings import LogSettings
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.snapshot import METADATA_DIRECTORY
from moldau.core.raft.voters import ReplicaKey
from moldau.errors import MoldauError
from moldau.ports import Disk
from moldau.shell.broker.logs.log_settings import LogSettingsByOverrides
from moldau.shell.io.dry_run import DryRunDisk
from moldau.shell.node.storage_format import read_meta_properties
from moldau.shell.quorum.metadata_log import load_image, load_snapshot, load_voters, open_log
from moldau.shell.quorum.quorum_state import QUORUM_STATE, QuorumError, read_quorum_state
from moldau.shell.quorum.snapshot_files import DAMAGED_SUFFIX
from moldau.types import TopicPartition, counted

_FLUSHED_OFFSET = f"{METADATA_DIRECTORY}/{FLUSHED_OFFSET}"
_SETTINGS = parse_broker_settings({})
"""Kafka's defaults: nothing here depends on them."""


def repair_directory(disk: Disk, *, now_ms: int) -> Iterator[str]:
    """Repairs the directory and yields a sentence without its subject for each repair. Waits. Raises MoldauError."""
    looking = DryRunDisk(disk)
    is_changed = is_metadata_cut = False
    image: MetadataImage | None = None
    if disk.list_directory(METADATA_DIRECTORY):
        for one in (looking, disk):
            log = open_log(one, _SETTINGS, DirectoryHealth(), 0, now_ms=now_ms, refuses_damage=False)
            done = list(_repair_metadata(one, log))
            is_metadata_cut = bool(done)
            done += _repair_quorum_state(one, log)
            image = _image_after(one, log)
            log.release()
            if not done:
                break  # logs that are whole are only read
        yield from done
        is_changed = bool(done)
    directory, looked_at = LogDirectory.open(disk), LogDirectory.open(looking)
    if is_metadata_cut and image is not None:
        yield from _vanished_topics(image, directory.partitions())
    settings_of = LogSettingsByOverrides(_SETTINGS)
    for topic_partition in directory.partitions():
        if image is not None and not _is_known(image, topic_partition):
            continue  # a stray: the next start sets it aside
        overrides = {} if image is None else image.topic_configs(topic_partition.topic)
        # without its settings, the log may be a compacted one, where a hole is no damage
        repair = partial(_repair_log, topic_partition, settings_of(overrides), now_ms, image is None)
        if repair(looked_at):
            is_changed = True
            yield from repair(directory)
    if is_changed:
        directory.write_recovery_points()
        disk.remove(CLEAN_SHUTDOWN_MARK)
        disk.flush_directory("")


def _is_known(image: MetadataImage, topic_partition: TopicPartition) -> bool:
    topic = image.topics_by_name.get(topic_partition.topic)
    return topic is not None and topic_partition.partition in topic.partitions


def _vanished_topics(image: MetadataImage, partitions: Sequence[TopicPartition]) -> Iterator[str]:
    """Topics that depend on the records cut from the metadata log, as far as this directory shows them."""
    vanished: dict[str, list[str]] = {}
    for topic_partition in partitions:
        if not _is_known(image, topic_partition):
            vanished.setdefault(topic_partition.topic, []).append(str(topic_partition))
    for topic, names in vanished.items():
        what = "partitions of topic" if topic in image.topics_by_name else "topic"
        yield (
            f"left {what} {topic} out of the metadata log: the next start sets {', '.join(names)} aside with all "
            "records; see `moldau log strays --help`"
        )


def _repair_quorum_state(disk: Disk, log: Log) -> Iterator[str]:
    """Raises QuorumError if the file may have held votes: a voter that forgets one could vote twice in an epoch, and
    two nodes could lead in that epoch."""
    try:
        read_quorum_state(disk, QUORUM_STATE)
    except QuorumError as error:
        if not _is_no_vote_lost(disk, log):
            raise QuorumError(
                f"{error}; the file is not renamed, for other nodes may be voters too, and a voter must not forget its "
                "vote: put the file back from a copy, or remove this voter from the quorum, format its directory anew "
                "and add it again. Nothing was changed"
            ) from error
        # a quorum of one has its epoch in the log and voted for nobody else; a broker never votes
        disk.rename(QUORUM_STATE, QUORUM_STATE + DAMAGED_SUFFIX)
        yield f"renamed {QUORUM_STATE} to {QUORUM_STATE}{DAMAGED_SUFFIX}: {error}"


def _is_no_vote_lost(disk: Disk, log: Log) -> bool:
    """Whether the metadata log says that this node is the only voter, or a broker and no controller. False if the
    voters are configured, or if the log cannot be read."""
    try:
        properties = read_meta_properties(disk)
        voters, image = load_voters(disk, log)
    except MoldauError:
        return False
    if properties is None or not voters.keys:
        return False
    if not voters.has_node(properties.node_id):
        return properties.node_id in image.brokers and properties.node_id not in image.controllers
    return voters.keys == (ReplicaKey(properties.node_id, properties.directory_id),)


def _repair_log(
    topic_partition: TopicPartition,
    settings: LogSettings,
    now_ms: int,
    is_policy_unknown: bool,
    directory: LogDirectory,
) -> list[str]:
    return directory.repair_log(topic_partition, settings, now_ms=now_ms, is_cleaning_unknown=is_policy_unknown)


def _repair_metadata(disk: Disk, log: Log) -> Iterator[str]:
    for cut in log.cuts:
        yield cut.describe()
    noted = FlushedOffset(disk, _FLUSHED_OFFSET).read()
    if noted > log.log_end_offset:
        disk.remove(_FLUSHED_OFFSET)
        end_offset = log.log_end_offset
        yield f"removed {_FLUSHED_OFFSET}: the file says offset {noted}, but the log ends at offset {end_offset}"
    snapshot = load_snapshot(disk, log.log_start_offset)
    if log.log_end_offset < snapshot.end_offset:
        # everything that the snapshot covers is whole: Kafka too makes such a replica's log begin at its end
        for segment in reversed(list(log.segments)):
            cut = set_aside(segment, log.log_end_offset)
            if cut.byte_count:
                yield cut.describe()
        disk.open(f"{METADATA_DIRECTORY}/{snapshot.end_offset:020d}.log").close()
        disk.flush_directory(METADATA_DIRECTORY)
        yield f"began {METADATA_DIRECTORY} anew at offset {snapshot.end_offset}, where the newest snapshot ends"


def _image_after(disk: Disk, log: Log) -> MetadataImage | None:
    """The metadata that the next start will have; None if unknown: the start will report the reason."""
    try:
        return load_image(disk, log)
    except MoldauError:
        return None


def list_strays(disk: Disk) -> list[tuple[str, int]]:
    """Name and bytes of each stray in the root of `disk`."""
    names = [name for name in disk.list_directory("") if is_stray_name(name) and disk.is_directory(name)]
    return [(name, sum(_size(disk, f"{name}/{file}") for file in disk.list_directory(name))) for name in names]


def delete_stray(disk: Disk, name: str) -> None:
    """Deletes a stray for good. Raises MoldauError if it is not a stray."""
    _check_is_stray(disk, name)
    disk.remove_tree(name)


def adopt_stray(disk: Disk, name: str, *, now_ms: int) -> str:
    """Makes a stray the log of the partition in its name, unless that partition already has records; returns the name
    of the directory. Otherwise raises MoldauError with the step to do first, and changes nothing."""
    _check_is_stray(disk, name)
    topic_partition = parse_stray_name(name)
    if topic_partition is None or not disk.list_directory(METADATA_DIRECTORY):
        raise MoldauError(
            f"this directory has no {METADATA_DIRECTORY}: move {name} to the first of log.dirs and adopt it there"
        )
    looking = DryRunDisk(disk)
    flushed_offset = FlushedOffset(looking, _FLUSHED_OFFSET).read()
    log = open_log(looking, _SETTINGS, DirectoryHealth(), flushed_offset, now_ms=now_ms)
    image = load_image(looking, log)
    log.release()
    topic_name, index = topic_partition.topic, topic_partition.partition
    topic = image.topics_by_name.get(topic_name)
    if topic is None or index not in topic.partitions:
        known = "knows no topic" if topic is None else f"knows {counted(len(topic.partitions), 'partition')} of topic"
        verb = "create" if topic is None else "alter"
        raise MoldauError(
            f"the metadata log {known} {topic_name}: start the broker, run `moldau topics {verb} {topic_name} "
            f"--partitions {index + 1}` (or more), stop it, and adopt {name} again"
        )
    directory = LogDirectory.open(disk)
    if directory.has_records(str(topic_partition)):
        raise MoldauError(f"{topic_partition} has records of its own, which {name} would hide: nothing was changed")
    directory.adopt(topic_partition, name, topic.topic_id)
    return str(topic_partition)


def _check_is_stray(disk: Disk, name: str) -> None:
    if not is_stray_name(name) or "/" in name or not disk.is_directory(name):
        raise MoldauError(f"this directory has no stray {name}")


def _size(disk: Disk, path: str) -> int:
    file = disk.open(path, create=False)
    try:
        return file.size()
    finally:
        file.close()
