"""Reads `__cluster_metadata-0` at a start: the newest snapshot and the log after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.coordination.host import LoadedRecord
from moldau.core.log.directories.health import DirectoryHealth
from moldau.core.log.files.checkpoint import CLEAN_SHUTDOWN_MARK, decode_clean_shutdown
from moldau.core.log.files.flushed_offset import FlushedOffset
from moldau.core.log.files.segment import LOG_SUFFIX
from moldau.core.log.log import Log
from moldau.core.log.recovery.recovery import RecoveryPlan
from moldau.core.log.settings import LogSettings
from moldau.core.metadata.batches import MAX_BATCH_BYTES, decode_record
from moldau.core.metadata.fold import MetadataFold, MetadataRecord, UnknownRecord
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.releases import unknown_level
from moldau.core.metadata.snapshot import (
    BOOTSTRAP_CHECKPOINT,
    METADATA_DIRECTORY,
    QuorumControl,
    Snapshot,
    decode_snapshot,
    parse_snapshot_file_name,
    snapshot_file_name,
)
from moldau.core.raft.voters import VoterSet, voter_sets_in
from moldau.errors import ProtocolError
from moldau.ports import Disk
from moldau.shell.quorum.quorum_state import QuorumError
from moldau.shell.quorum.snapshot_files import DAMAGED_SUFFIX, finish_replacing
from moldau.types import METADATA_PARTITION, METADATA_TOPIC_ID, Offset, Uuid
from moldau.wire.protocol.messages.metadata_records import FeatureLevelRecord, RemoveTopicRecord
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.record import Record, read_records

READ_BYTES = 1 << 20
FORMATTED_CHECKPOINT = f"{METADATA_DIRECTORY}/{snapshot_file_name(Offset(0), 0)}"
"""Written by a format of a new cluster: the first voters and, since Apache Kafka 4.4, also the records that earlier
versions write to `bootstrap.checkpoint` (KIP-1170)."""

LOG_SETTINGS = LogSettings(
    cleanup_policy=("delete",),
    max_message_bytes=MAX_BATCH_BYTES + 1024 * 1024,
    file_delete_delay_ms=0,
)


class LoadedSnapshot(msgspec.Struct, frozen=True):
    """The newest readable snapshot. Right after formatting it has end offset 0 and only the first voters: other records
    of FORMATTED_CHECKPOINT are no state until the first leader has written them into the log. `damaged`: the paths of
    newer snapshots, which were renamed."""

    snapshot: Snapshot
    end_offset: Offset
    leader_epoch: int
    damaged: tuple[str, ...] = ()


def open_log(
    disk: Disk,
    settings: BrokerSettings,
    health: DirectoryHealth,
    flushed_offset: int,
    *,
    now_ms: int,
    refuses_damage: bool = True,
    is_rewritten: bool = False,
) -> Log:
    """The metadata log, completely read and checked; `is_rewritten`: see rewriting.

    Raises DamagedLogError for damage below `flushed_offset`, below the end offset of a snapshot (a snapshot only covers
    records on the disk), or anywhere before the end that a clean stop left; see recovery.
    """
    log_settings = msgspec.structs.replace(
        LOG_SETTINGS,
        segment_bytes=settings.metadata_log_segment_bytes,
        segment_ms=settings.metadata_log_segment_ms,
        retention_ms=settings.metadata_max_retention_ms,
        retention_bytes=settings.metadata_max_retention_bytes,
    )
    plan = RecoveryPlan(
        is_clean=_ends_with_a_clean_stop(disk, flushed_offset),
        log_start_offset=_start_without_segments(disk, flushed_offset),
        recovery_point=max((flushed_offset, *(end_offset for (end_offset, _), _ in _snapshot_files(disk)))),
        is_read_whole=True,
        refuses_damage=refuses_damage,
        is_rewritten=is_rewritten,
    )
    return _loaded(disk, log_settings, now_ms, plan, health)


def _loaded(disk: Disk, settings: LogSettings, now_ms: int, plan: RecoveryPlan, health: DirectoryHealth | None) -> Log:
    log = Log(disk, METADATA_DIRECTORY, METADATA_PARTITION, METADATA_TOPIC_ID, settings, now_ms, health=health)
    log.load(now_ms, plan)
    return log


def replaced_log(disk: Disk, old: Log, flushed_offset: FlushedOffset, now_ms: int) -> Log:
    """Closes `old` and returns the log after the snapshot that replaces it, see snapshot_files."""
    settings, health = old.settings, old.health
    old.release()
    finish_replacing(disk, flushed_offset)
    plan = RecoveryPlan(log_start_offset=_start_without_segments(disk, flushed_offset.read()))
    return _loaded(disk, settings, now_ms, plan, health)


def _start_without_segments(disk: Disk, flushed_offset: int) -> int:
    """The start offset of a log that a snapshot replaced and that has no appends since; 0 if its files tell the
    offset."""
    names = disk.list_directory(METADATA_DIRECTORY)
    ends = [end_offset for (end_offset, _), _ in _snapshot_files(disk)]
    return 0 if any(name.endswith(LOG_SUFFIX) for name in names) or flushed_offset not in ends else flushed_offset


def _ends_with_a_clean_stop(disk: Disk, flushed_offset: int) -> bool:
    """Whether the mark of a clean stop covers the whole log.

    Moldau and Apache Kafka both append to this log before they remove the mark. The mark names the broker epoch: the
    offset at which the stopped broker was registered. A flushed offset above it is from the same run or a later one and
    is used alone, because records above it were appended after the mark. A flushed offset below it is from an earlier
    run than the mark: Apache Kafka, which stores no flushed offset, stopped cleanly.
    """
    if not disk.exists(CLEAN_SHUTDOWN_MARK):
        return False
    try:
        broker_epoch = decode_clean_shutdown(disk.read_file(CLEAN_SHUTDOWN_MARK)).broker_epoch
    except ValueError:
        return True
    return not 0 <= broker_epoch < flushed_offset


def load_snapshot(disk: Disk, log_start_offset: int = 0) -> LoadedSnapshot:
    """The snapshot with the highest end offset; an empty one if no snapshot exists.

    An unreadable snapshot is renamed and skipped if an older one and the log from `log_start_offset` on cover the same
    records. Raises QuorumError if nothing covers them.
    """
    damaged: list[str] = []
    failure = ""
    for (end_offset, leader_epoch), name in sorted(_snapshot_files(disk), reverse=True):
        path = f"{METADATA_DIRECTORY}/{name}"
        if damaged and end_offset < log_start_offset:
            break
        try:
            snapshot = decode_snapshot(disk.read_file(path))
        except ProtocolError as error:
            damaged.append(path)
            failure = failure or f"{path} cannot be read: {error}"
            continue
        for other in damaged:
            disk.rename(other, other + DAMAGED_SUFFIX)
        if end_offset == 0:
            snapshot = msgspec.structs.replace(snapshot, records=())
        return LoadedSnapshot(snapshot, end_offset, leader_epoch, tuple(path + DAMAGED_SUFFIX for path in damaged))
    if failure:
        raise QuorumError(failure)
    return LoadedSnapshot(Snapshot((), QuorumControl(), 0), Offset(0), 0)


def _snapshot_files(disk: Disk) -> list[tuple[tuple[Offset, int], str]]:
    """((end offset, leader epoch), name) of each snapshot."""
    return [
        (parsed, name)
        for name in disk.list_directory(METADATA_DIRECTORY)
        if (parsed := parse_snapshot_file_name(name)) is not None
    ]


def load_bootstrap_records(disk: Disk) -> tuple[MetadataRecord, ...]:
    """The first records of a new cluster: from `bootstrap.checkpoint`, else from FORMATTED_CHECKPOINT. Raises
    QuorumError if neither has any, and for a file that is damaged or from a later Kafka."""
    path = BOOTSTRAP_CHECKPOINT
    if not disk.exists(path) and disk.exists(FORMATTED_CHECKPOINT):
        path = FORMATTED_CHECKPOINT
    try:
        records = decode_snapshot(disk.read_file(path)).records
    except (FileNotFoundError, ProtocolError) as error:
        raise QuorumError(f"{path} cannot be read: {error}") from error
    if path == FORMATTED_CHECKPOINT and not records:
        raise QuorumError(f"{BOOTSTRAP_CHECKPOINT} cannot be read: it is missing, and {path} holds no feature level")
    for position, record in enumerate(records):
        found = unknown_level({record.name: record.feature_level}) if isinstance(record, FeatureLevelRecord) else None
        if found is not None:
            raise QuorumError(f"{path}, record {position}: FeatureLevelRecord: {found[1]}")
        if isinstance(record, UnknownRecord):
            raise QuorumError(f"{path}, record {position}: {record.reason}")
    return records


def fold_log(fold: MetadataFold, disk: Disk, log: Log) -> tuple[LoadedSnapshot, LogReplay]:
    """Folds the newest snapshot and the records of `log` after it. Raises QuorumError, with the record's place."""
    loaded = load_snapshot(disk, log.log_start_offset)
    if not log.log_start_offset <= loaded.end_offset <= log.log_end_offset:
        raise QuorumError(
            f"{METADATA_DIRECTORY}: the newest snapshot ends at {loaded.end_offset}, the log holds "
            f"{log.log_start_offset} to {log.log_end_offset}"
        )
    for position, record in enumerate(loaded.snapshot.records):
        _fold_record(fold, record, f"snapshot {loaded.end_offset}, record {position}")
    replay = LogReplay(log, loaded.end_offset, loaded.snapshot.control)
    for item in replay.records():
        _fold_record(fold, item.record, f"offset {item.offset}")
    return loaded, replay


def _fold_record(fold: MetadataFold, record: MetadataRecord, place: str) -> None:
    try:
        fold.apply(record)
    except Exception as error:
        kind = type(record).__name__
        raise QuorumError(f"{METADATA_DIRECTORY} stopped at {place}: {kind} cannot be applied: {error!r}") from error


def check_levels(levels: Mapping[str, int], log: Log, loaded: LoadedSnapshot) -> None:
    """Raises QuorumError, with the record's place, for a feature level of a later Kafka."""
    found = unknown_level(levels)
    if found is None:
        return
    name, reason = found
    place = METADATA_DIRECTORY
    for position, record in enumerate(loaded.snapshot.records):
        if isinstance(record, FeatureLevelRecord) and record.name == name:
            place = f"{METADATA_DIRECTORY}, snapshot {loaded.end_offset}, record {position}"
    for item in LogReplay(log, loaded.end_offset, loaded.snapshot.control).records():
        if isinstance(item.record, FeatureLevelRecord) and item.record.name == name:
            place = f"{METADATA_DIRECTORY}, offset {item.offset}"
    raise QuorumError(f"{place}: FeatureLevelRecord: {reason}")


def load_image(disk: Disk, log: Log) -> MetadataImage:
    """The image from snapshot and `log`, for read-only tools. Raises QuorumError."""
    fold = MetadataFold()
    fold_log(fold, disk, log)
    return fold.image


def load_voters(disk: Disk, log: Log) -> tuple[VoterSet, MetadataImage]:
    """As load_image, with the last voters in snapshot and `log`; empty if the voters are configured."""
    fold = MetadataFold()
    _, replay = fold_log(fold, disk, log)
    named = replay.control.voters
    return VoterSet(() if named is None else named.voters), fold.image


def removed_topic_ids(log: Log) -> dict[Uuid, None]:
    """The ids of all topics whose removal is still in `log`, including before the newest snapshot. Waits for the
    disk."""
    records = (item.record for item in LogReplay(log, log.log_start_offset, QuorumControl()).records())
    return {record.topic_id: None for record in records if isinstance(record, RemoveTopicRecord)}


class LogReplay:
    """Reads the log from `start_offset` on: records through `records()`, and the data of control records in
    `control`."""

    def __init__(self, log: Log, start_offset: int, control: QuorumControl) -> None:
        self.control = control
        self.bytes_read = 0
        self.voter_sets: list[tuple[int, VoterSet]] = []
        """The voter sets in the log, with their offsets."""
        self._log = log
        self._start_offset = start_offset

    def records(self) -> Iterator[LoadedRecord[MetadataRecord]]:
        """Every record up to the log end. Waits for the disk. Raises QuorumError, with the offset, for damaged
        bytes."""
        offset, end_offset = self._start_offset, self._log.log_end_offset
        while offset < end_offset:
            data = self._read(offset, end_offset)
            self.bytes_read += len(data)
            begin = offset
            for position, header in iterate_batches(data):
                batch = memoryview(data)[position : position + header.size]
                self.voter_sets.extend(voter_sets_in(batch))
                for record in self._read_batch(batch, header.base_offset):
                    if record.offset < offset:
                        continue
                    if header.is_control:
                        self.control = self.control.after(record.key, record.value)
                    else:
                        yield LoadedRecord(Offset(record.offset), decode_record(record.value))
                offset = header.next_offset
            if offset == begin:
                raise QuorumError(f"{METADATA_DIRECTORY}: no whole batch at offset {offset}")

    def _read(self, offset: int, end_offset: int) -> bytes:
        data = self._log.read(offset, max_bytes=READ_BYTES, end_offset=end_offset, may_wait=True).records
        if not data:
            raise QuorumError(f"{METADATA_DIRECTORY}: nothing to read at offset {offset} of {end_offset}")
        return bytes(data)

    @staticmethod
    def _read_batch(batch: memoryview, base_offset: int) -> list[Record]:
        try:
            return read_records(batch)
        except ProtocolError as error:
            raise QuorumError(f"{METADATA_DIRECTORY}: the batch at offset {base_offset} is broken: {error}") from error
