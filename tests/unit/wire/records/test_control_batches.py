"""Control batches: markers and the quorum's records."""

from __future__ import annotations

import pytest
from kafka.record.default_records import DefaultRecordBatch

from moldau.errors import ProtocolError
from moldau.wire.records.batch import is_crc_valid, read_header
from moldau.wire.records.control import (
    ControlType,
    EndTransactionMarker,
    build_control_batch,
    build_end_transaction_batch,
    decode_control_key,
    decode_end_transaction_marker,
    encode_control_key,
)
from moldau.wire.records.record import read_records


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_is_read_back_and_by_kafka_python(is_commit):
    marker = EndTransactionMarker(is_commit, 12)
    batch = build_end_transaction_batch(marker, producer_id=7, producer_epoch=2, timestamp=99, base_offset=5)
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, -1)
    assert is_crc_valid(batch, 0, len(batch))
    (record,) = read_records(batch)
    assert decode_end_transaction_marker(record.key, record.value) == marker
    theirs = next(iter(DefaultRecordBatch(batch)))
    assert (theirs.commit, theirs.abort) == (is_commit, not is_commit)


def test_a_snapshot_head_holds_several_control_records():
    batch = build_control_batch([(ControlType.SNAPSHOT_HEADER, b"h"), (ControlType.KRAFT_VERSION, b"v")], timestamp=3)
    assert read_header(batch).is_control
    kinds = [decode_control_key(record.key) for record in read_records(batch)]
    assert kinds == [ControlType.SNAPSHOT_HEADER, ControlType.KRAFT_VERSION]


def test_unknown_control_types_are_skipped_and_damage_is_refused():
    assert decode_control_key(b"\x00\x00\x00\x63") is None
    for key in (None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"):
        with pytest.raises(ProtocolError):
            decode_control_key(key)
    commit = encode_control_key(ControlType.COMMIT)
    for key, value in ((commit, None), (commit, b"\x00"), (encode_control_key(ControlType.LEADER_CHANGE), b"\x00" * 6)):
        with pytest.raises(ProtocolError):
            decode_end_transaction_marker(key, value)
