"""The records of `__transaction_state`, and the state after replaying them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.core.transactions.records import decode_transaction_record, encode_transaction_record
from moldau.core.transactions.requests import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    MarkersWritten,
    TransactionAnswer,
    VerifyPartitions,
)
from moldau.core.transactions.state import PREPARED, TransactionMetadata, TransactionRecord, TransactionState
from moldau.errors import ProtocolError
from moldau.types import TopicPartition
from tests.unit.core.transactions.conftest import T0, T1, Shard

FULL = TransactionMetadata(
    producer_id=7,
    producer_epoch=3,
    state=TransactionState.PREPARE_COMMIT,
    timeout_ms=60_000,
    partitions={T1: None, T0: None, TopicPartition("__consumer_offsets", 2): None},
    start_ms=10,
    last_update_ms=20,
    previous_producer_id=6,
    next_producer_id=8,
    client_version=2,
)


def test_a_record_is_what_was_written() -> None:
    record = TransactionRecord("tx", FULL)
    assert decode_transaction_record(*encode_transaction_record(record)) == record
    gone = TransactionRecord("tx", None)
    assert decode_transaction_record(*encode_transaction_record(gone)) == gone


def test_an_older_record_leaves_out_what_transactions_v2_need() -> None:
    decoded = decode_transaction_record(*encode_transaction_record(TransactionRecord("tx", FULL, version=0)))
    left = msgspec.structs.replace(FULL, previous_producer_id=-1, next_producer_id=-1, client_version=0)
    assert decoded == TransactionRecord("tx", left, version=0)


def test_the_bytes_are_those_of_apache_kafka() -> None:
    """Value v1: producer id, epoch, time-out, status, partitions (null while empty), times, tagged fields."""
    metadata = TransactionMetadata(
        producer_id=1, producer_epoch=0, state=TransactionState.EMPTY, timeout_ms=60_000, last_update_ms=2
    )
    key, value = encode_transaction_record(TransactionRecord("tx", metadata))
    assert key == b"\0\0\0\x02tx"
    assert value == (
        b"\0\x01"
        + (1).to_bytes(8)
        + b"\0\0"
        + (60_000).to_bytes(4)
        + b"\0"
        + b"\0"
        + (2).to_bytes(8)
        + b"\xff" * 8
        + b"\0"
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"\0", None),
        (b"\0\0\0\x05tx", None),
        (b"\0\0\0\x02txx", None),
        (b"\0\0\0\x02tx", b"\0"),
        (b"\0\0\0\x02tx", b"\0\x09" + bytes(40)),
        (b"\0\0\0\x02tx", b"\0\0" + bytes(10) + bytes(4) + b"\x08" + b"\xff" * 4 + bytes(16)),
    ],
)
def test_a_broken_record_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        decode_transaction_record(key, value)


def test_a_kind_of_key_that_is_not_known_is_passed_over() -> None:
    assert decode_transaction_record(b"\0\x01anything", b"x") is None


def test_states_that_are_never_committed_are_read_as_what_they_stand_for() -> None:
    """Apache Kafka has them only in memory."""
    for state, read in (
        (TransactionState.PREPARE_EPOCH_FENCE, TransactionState.ONGOING),
        (TransactionState.DEAD, None),
    ):
        metadata = msgspec.structs.replace(FULL, state=state)
        decoded = decode_transaction_record(*encode_transaction_record(TransactionRecord("tx", metadata)))
        assert decoded is not None
        assert (None if decoded.metadata is None else decoded.metadata.state) == read


IDS = st.sampled_from(["a", "b"])
PRODUCERS = st.sampled_from([-1, 1000, 1001, 1002])
EPOCHS = st.sampled_from([-1, 0, 1, 2, 3, 32_765, 32_766, 32_767])
PARTITIONS = st.lists(st.sampled_from([T0, T1]), min_size=0, max_size=2).map(tuple)
REQUESTS = st.one_of(
    st.builds(InitProducerId, IDS, st.just(60_000), PRODUCERS, EPOCHS, st.sampled_from([1000, 1001, 1002])),
    st.builds(AddPartitions, IDS, PRODUCERS, EPOCHS, PARTITIONS, st.sampled_from([0, 2])),
    st.builds(VerifyPartitions, IDS, PRODUCERS, EPOCHS, PARTITIONS),
    st.builds(
        EndTransaction, IDS, PRODUCERS, EPOCHS, st.booleans(), st.sampled_from([0, 2]), st.sampled_from([-1, 1002])
    ),
    st.builds(MarkersWritten, IDS, PRODUCERS, EPOCHS),
)
STEPS = st.lists(
    st.one_of(
        REQUESTS,
        st.sampled_from(["wait", "markers", "begin", "end", "reload", "level 0", "level 2", "fail"]),
    ),
    max_size=40,
)


@given(steps=STEPS, level=st.sampled_from([0, 1, 2]))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_folding_the_log_gives_the_state(steps: list[object], level: int) -> None:
    shard = Shard(transaction_version=level)
    for step in steps:
        if step == "wait":
            shard.wait(60_000)
        elif step == "markers":
            for name, known in list(shard.state.transactions.items()):
                if known.state in PREPARED:
                    shard.give_markers(name)
        elif step in ("begin", "end"):
            for name, known in list(shard.state.transactions.items()):
                ids = known.producer_id, known.producer_epoch
                if step == "begin":
                    shard.add(*ids, name=name)
                else:
                    shard.end(*ids, name=name, version=level)
        elif step == "reload":
            shard.reload()
        elif isinstance(step, str) and step.startswith("level"):
            level = int(step[-1])
            shard.finalize(level)
        elif step == "fail":
            shard.is_append_failing = not shard.is_append_failing
        else:
            shard.ask(step)  # type: ignore[arg-type]
        shard.is_append_failing = shard.is_append_failing and step == "fail"
    live = {name: _in_log(shard, name) for name in shard.state.transactions}
    shard.reload()
    assert shard.state.transactions == live


def _in_log(shard: Shard, name: str) -> TransactionMetadata:
    """The part that the log can hold: not the last epoch, and for an older record none of v2's fields."""
    known = msgspec.structs.replace(shard.of(name), last_epoch=-1)
    for key, value in reversed(shard.log):
        record = decode_transaction_record(key, value)
        assert record is not None
        if record.transactional_id == name:
            again = decode_transaction_record(
                *encode_transaction_record(TransactionRecord(name, known, record.version))
            )
            assert again is not None
            assert again.metadata is not None
            return again.metadata
    raise AssertionError(name)


def test_a_repeated_report_is_answered() -> None:
    assert Shard().ask(MarkersWritten("nobody", 1, 1)) == TransactionAnswer()
