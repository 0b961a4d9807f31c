"""What lies in `__cluster_metadata-0`: the newest snapshot and the log behind it, read at a start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from moldau.core.coordination.host import LoadedRecord
from moldau.core.log.log import Log
from moldau.core.metadata.batches import decode_record
from moldau.core.metadata.features import unserved_level
from moldau.core.metadata.fold import MetadataFold, MetadataRecord, UnknownRecord
from moldau.core.metadata.snapshot import (
    BOOTSTRAP_CHECKPOINT,
    METADATA_DIRECTORY,
    QuorumControl,
    Snapshot,
    decode_snapshot,
    parse_snapshot_file_name,
)
from moldau.errors import ProtocolError
from moldau.ports import Disk
from moldau.shell.quorum.quorum_state import QuorumError
from moldau.types import Offset
from moldau.wire.protocol.messages.metadata_records import FeatureLevelRecord
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.record import Record, read_records

READ_BYTES = 1 << 20


class LoadedSnapshot(msgspec.Struct, frozen=True):
    """The newest snapshot; end offset 0 with nothing but the first voters, right after formatting."""

    snapshot: Snapshot
    end_offset: Offset
    leader_epoch: int


def load_snapshot(disk: Disk) -> LoadedSnapshot:
    """The snapshot with the highest end offset; an empty one if there is none. Raises QuorumError if it is broken."""
    found = [
        (parsed, name)
        for name in disk.list_directory(METADATA_DIRECTORY)
        if (parsed := parse_snapshot_file_name(name)) is not None
    ]
    if not found:
        return LoadedSnapshot(Snapshot((), QuorumControl(), 0), Offset(0), 0)
    (end_offset, leader_epoch), name = max(found)
    path = f"{METADATA_DIRECTORY}/{name}"
    try:
        return LoadedSnapshot(decode_snapshot(disk.read_file(path)), end_offset, leader_epoch)
    except ProtocolError as error:
        raise QuorumError(f"{path} cannot be read: {error}") from error


def load_bootstrap_records(disk: Disk) -> tuple[MetadataRecord, ...]:
    """The first records of a new cluster. Raises QuorumError if the file is absent, broken, or of another Kafka."""
    try:
        records = decode_snapshot(disk.read_file(BOOTSTRAP_CHECKPOINT)).records
    except (FileNotFoundError, ProtocolError) as error:
        raise QuorumError(f"{BOOTSTRAP_CHECKPOINT} cannot be read: {error}") from error
    for position, record in enumerate(records):
        found = unserved_level({record.name: record.feature_level}) if isinstance(record, FeatureLevelRecord) else None
        if found is not None:
            raise QuorumError(f"{BOOTSTRAP_CHECKPOINT}, record {position}: FeatureLevelRecord: {found[1]}")
        if isinstance(record, UnknownRecord):
            raise QuorumError(f"{BOOTSTRAP_CHECKPOINT}, record {position}: {record.reason}")
    return records


def fold_snapshot(fold: MetadataFold, loaded: LoadedSnapshot) -> None:
    """Raises QuorumError, with the record's place, for one that does not fit."""
    for position, record in enumerate(loaded.snapshot.records):
        try:
            fold.apply(record)
        except ValueError as error:
            raise QuorumError(
                f"snapshot {loaded.end_offset}: record {position}, {type(record).__name__}, cannot be applied: {error}"
            ) from error


def check_levels(levels: Mapping[str, int], log: Log, loaded: LoadedSnapshot) -> None:
    """Raises QuorumError, with the record's place, for a feature level of a later Kafka."""
    found = unserved_level(levels)
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


class LogReplay:
    """Reads the log from `start_offset` on: records by `records()`, and what control records say in `control`."""

    def __init__(self, log: Log, start_offset: int, control: QuorumControl) -> None:
        self.control = control
        self.bytes_read = 0
        self._log = log
        self._start_offset = start_offset

    def records(self) -> Iterator[LoadedRecord[MetadataRecord]]:
        """Every record up to the log end. Waits for the disk. Raises QuorumError, with the offset, for broken bytes."""
        offset, end_offset = self._start_offset, self._log.log_end_offset
        while offset < end_offset:
            data = self._read(offset, end_offset)
            self.bytes_read += len(data)
            begin = offset
            for position, header in iterate_batches(data):
                batch = memoryview(data)[position : position + header.size]
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
