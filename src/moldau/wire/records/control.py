"""Control batches: Kafka's own records in a log, which consumers do not see.

A control record's key is (version int16, type int16). Bodies: the end-transaction marker is here, the others are
encoded messages of `moldau.wire.protocol.messages.raft_records`. Sources: KIP-98, KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence

import msgspec

from moldau.errors import ProtocolError
from moldau.types import Buffer
from moldau.wire.records.batch import CONTROL_FLAG, MAGIC, TRANSACTIONAL_FLAG, BatchHeader
from moldau.wire.records.builder import SET_LATER, RecordTuple, assemble_batch, encode_records
from moldau.wire.records.record import read_records

_KEY = struct.Struct(">hh")
_END_TRANSACTION = struct.Struct(">hi")
CONTROL_KEY_VERSION = 0
END_TRANSACTION_VERSION = 0


class ControlType(enum.IntEnum):
    """The second number of a control record's key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTransactionMarker(msgspec.Struct, frozen=True):
    """The end of a transaction on one partition. `coordinator_epoch` fences markers of an old coordinator."""

    is_commit: bool
    coordinator_epoch: int


def encode_control_key(control_type: ControlType) -> bytes:
    """The key of a control record: version and type, two bytes each."""
    return _KEY.pack(CONTROL_KEY_VERSION, control_type)


def decode_control_key(key: Buffer | None) -> ControlType | None:
    """The type of a control record; None for one of a later Kafka, which readers skip.

    Raises ProtocolError for a key that is absent, cut, or of a negative version.
    """
    if key is None or len(key) < _KEY.size:
        raise ProtocolError("a control record's key is cut")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise ProtocolError(f"control record key version {version}")
    try:
        return ControlType(control_type)
    except ValueError:
        return None


def build_control_batch(
    records: Sequence[tuple[ControlType, Buffer]],
    *,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """A control batch of these (type, encoded body) records: a leader change, or the header or footer of a snapshot."""
    rows: list[RecordTuple] = [(encode_control_key(kind), body, timestamp, ()) for kind, body in records]
    return _assemble(rows, base_offset, leader_epoch, CONTROL_FLAG)


def build_end_transaction_batch(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The marker that ends a producer's transaction: a transactional control batch of one record."""
    kind = ControlType.COMMIT if marker.is_commit else ControlType.ABORT
    body = _END_TRANSACTION.pack(END_TRANSACTION_VERSION, marker.coordinator_epoch)
    rows: list[RecordTuple] = [(encode_control_key(kind), body, timestamp, ())]
    attributes = CONTROL_FLAG | TRANSACTIONAL_FLAG
    return _assemble(rows, base_offset, leader_epoch, attributes, producer_id, producer_epoch)


def _assemble(
    rows: list[RecordTuple],
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> bytes:
    timestamp, count = rows[0][2], len(rows)
    return assemble_batch(
        encode_records(rows, range(count)),
        BatchHeader(
            base_offset,
            SET_LATER,
            leader_epoch,
            MAGIC,
            SET_LATER,
            attributes,
            count - 1,
            timestamp,
            timestamp,
            producer_id,
            producer_epoch,
            -1,
            count,
        ),
    )


def end_of_transaction(batch: Buffer) -> EndTransactionMarker | None:
    """The marker in a control batch. None for another one, for an emptied batch, and for a later version, which
    consumers skip too."""
    try:
        for record in read_records(batch):
            if decode_control_key(record.key) in (ControlType.ABORT, ControlType.COMMIT):
                return decode_end_transaction_marker(record.key, record.value)
    except ProtocolError:
        pass
    return None


def decode_end_transaction_marker(key: Buffer | None, value: Buffer | None) -> EndTransactionMarker:
    """Raises ProtocolError for another control record. Fields that later versions append are not read."""
    control_type = decode_control_key(key)
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        raise ProtocolError(f"control record of type {control_type} is no end of a transaction")
    if value is None or len(value) < _END_TRANSACTION.size:
        raise ProtocolError("an end-transaction marker is cut")
    version, coordinator_epoch = _END_TRANSACTION.unpack_from(value)
    if version < 0:
        raise ProtocolError(f"end-transaction marker version {version}")
    return EndTransactionMarker(control_type is ControlType.COMMIT, coordinator_epoch)
