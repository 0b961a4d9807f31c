"""Snapshots of the metadata log as bytes: `NNN-EEE.checkpoint` and `bootstrap.checkpoint` (KIP-630, 853).

A control batch with the header (and the voters, if the log has them), batches of records, a control batch with the
footer. A file without a footer is incomplete and ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from moldau.core.metadata.batches import MAX_BATCH_BYTES, decode_record, encode_record
from moldau.core.metadata.features import RecordVersions
from moldau.core.metadata.fold import MetadataRecord
from moldau.errors import ProtocolError
from moldau.types import METADATA_PARTITION, Buffer, Offset
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.messages.raft_records import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from moldau.wire.records.batch import is_crc_valid, iterate_batches
from moldau.wire.records.builder import RecordTuple, build_batch
from moldau.wire.records.control import ControlType, build_control_batch, decode_control_key
from moldau.wire.records.record import read_records

METADATA_DIRECTORY = str(METADATA_PARTITION)
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
"""Next to the directory of the metadata log: the first records of a new cluster."""

MAX_RECORDS_PER_BATCH = 10_000


class QuorumControl(msgspec.Struct, frozen=True):
    """The state of the quorum in control records. `voters` is None if they are configured, not in the log."""

    kraft_version: int = 0
    voters: VotersRecord | None = None

    def records(self) -> list[tuple[ControlType, bytes]]:
        """The control records with this state, for the beginning of a snapshot or log."""
        if self.voters is None:
            return []
        version = KRaftVersionRecord(kraft_version=self.kraft_version)
        return [
            (ControlType.KRAFT_VERSION, encode_message(version, 0)),
            (ControlType.KRAFT_VOTERS, encode_message(self.voters, 0)),
        ]

    def after(self, key: Buffer | None, value: Buffer | None) -> QuorumControl:
        """The state after one control record. Other kinds change nothing."""
        kind = decode_control_key(key)
        if kind is ControlType.KRAFT_VERSION and value is not None:
            version = decode_message(KRaftVersionRecord, 0, value)[0].kraft_version
            return QuorumControl(version, self.voters)
        if kind is ControlType.KRAFT_VOTERS and value is not None:
            return QuorumControl(self.kraft_version, decode_message(VotersRecord, 0, value)[0])
        return self


class Snapshot(msgspec.Struct, frozen=True):
    """A decoded snapshot. `last_contained_log_timestamp_ms`: the time of the last record that it contains."""

    records: tuple[MetadataRecord, ...]
    control: QuorumControl
    last_contained_log_timestamp_ms: int


def encode_snapshot(snapshot: Snapshot, levels: Mapping[str, int], *, now_ms: int) -> bytes:
    """The bytes of a snapshot file. The record versions are those of the finalized `levels`."""
    parts = encode_snapshot_steps(
        snapshot.records,
        snapshot.control,
        levels,
        last_contained_log_timestamp_ms=snapshot.last_contained_log_timestamp_ms,
        now_ms=now_ms,
        leader_epoch=0,
    )
    return b"".join(parts)


def encode_snapshot_steps(
    records: Iterable[MetadataRecord],
    control: QuorumControl,
    levels: Mapping[str, int],
    *,
    last_contained_log_timestamp_ms: int,
    now_ms: int,
    leader_epoch: int,
    records_per_batch: int = MAX_RECORDS_PER_BATCH,
) -> Iterator[bytes]:
    """The bytes of a snapshot file, a batch at a time. Other work may come between two steps.

    With few `records_per_batch` a step is short (a record takes about 10 us).
    """
    header = SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_log_timestamp_ms)
    head = [(ControlType.SNAPSHOT_HEADER, encode_message(header, 0)), *control.records()]
    yield build_control_batch(head, timestamp=now_ms, leader_epoch=leader_epoch)
    offset = len(head)
    for rows in _rows(records, RecordVersions.for_levels(levels), now_ms, records_per_batch):
        yield build_batch(rows, base_offset=offset, leader_epoch=leader_epoch)
        offset += len(rows)
    footer = [(ControlType.SNAPSHOT_FOOTER, encode_message(SnapshotFooterRecord(), 0))]
    yield build_control_batch(footer, timestamp=now_ms, base_offset=offset, leader_epoch=leader_epoch)


def _rows(
    records: Iterable[MetadataRecord], versions: RecordVersions, now_ms: int, records_per_batch: int
) -> Iterator[list[RecordTuple]]:
    """The records in batches that keep Kafka's bounds."""
    rows: list[RecordTuple] = []
    size = 0
    for record in records:
        value = encode_record(record, versions)
        if rows and (len(rows) == records_per_batch or size + len(value) > MAX_BATCH_BYTES // 2):
            yield rows
            rows, size = [], 0
        rows.append((None, value, now_ms, ()))
        size += len(value) + 32
    if rows:
        yield rows


def decode_snapshot(data: Buffer) -> Snapshot:
    """Reads a snapshot file. Raises ProtocolError for malformed and incomplete ones."""
    control = QuorumControl()
    records: list[MetadataRecord] = []
    timestamp_ms: int | None = None
    is_finished = False
    for position, header in iterate_batches(data):
        batch = memoryview(data)[position : position + header.size]
        if not is_crc_valid(batch, 0, header.size):
            raise ProtocolError(f"snapshot: the batch at byte {position} fails its checksum")
        for record in read_records(batch):
            if not header.is_control:
                records.append(decode_record(record.value))
                continue
            kind = decode_control_key(record.key)
            if kind is ControlType.SNAPSHOT_HEADER and record.value is not None:
                timestamp_ms = decode_message(SnapshotHeaderRecord, 0, record.value)[0].last_contained_log_timestamp
            is_finished = kind is ControlType.SNAPSHOT_FOOTER
            control = control.after(record.key, record.value)
    if timestamp_ms is None or not is_finished:
        raise ProtocolError("snapshot: header or footer missing")
    return Snapshot(tuple(records), control, timestamp_ms)


def snapshot_file_name(end_offset: Offset, leader_epoch: int) -> str:
    """The file of the snapshot of all records below `end_offset`."""
    return f"{end_offset:020d}-{leader_epoch:010d}.checkpoint"


def parse_snapshot_file_name(name: str) -> tuple[Offset, int] | None:
    """(end offset, leader epoch). None for another file."""
    stem, _, suffix = name.partition(".")
    offset, dash, epoch = stem.partition("-")
    is_number = len(offset) == 20 and len(epoch) == 10 and (offset + epoch).isdigit() and stem.isascii()
    if suffix != "checkpoint" or not dash or not is_number:
        return None
    return Offset(int(offset)), int(epoch)
