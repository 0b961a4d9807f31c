"""Sections "Produce" and "Idempotence" of the table of bad input."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.records.builder import build_batch
from tests.support.wire import RawConnection, request_bytes
from tests.support.wire_produce import (
    ATTRIBUTES,
    COUNT,
    CRC,
    LAST_DELTA,
    LENGTH,
    MAGIC,
    VERSION,
    batch,
    idempotent,
    now_ms,
    patched,
    produce,
    request_of,
    stored,
)

NewTopic = Callable[..., str]


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_acks_that_do_not_exist(raw: RawConnection, new_topic: NewTopic, acks: int) -> None:
    topic = new_topic()
    assert produce(raw, topic, batch(), acks=acks)[0] == 21
    assert stored(raw, topic) == b""
    raw.assert_alive()


def test_acks_0_gets_no_answer(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    # First one with an answer: a broker may need a moment to lead a new partition.
    assert produce(raw, topic, batch(b"loud"))[0] == 0
    raw.start(request_of(topic, batch(b"quiet"), acks=0), VERSION)
    raw.assert_alive()
    assert b"quiet" in stored(raw, topic)


def test_acks_0_with_an_error_closes(raw: RawConnection) -> None:
    raw.start(request_of("no-such-topic", batch(), acks=0), VERSION)
    raw.assert_closed()


def test_null_records_are_refused(raw: RawConnection, new_topic: NewTopic, is_moldau: bool) -> None:
    if not is_moldau:
        return
    assert produce(raw, new_topic(), None)[0] == 87
    raw.assert_alive()


GOOD = bytes(batch(b"first", b"second", b"third"))


@pytest.mark.parametrize(
    "records",
    [
        b"",
        GOOD[:-1],
        GOOD + GOOD,
        patched(GOOD, ">q", 0, 5),
        patched(GOOD, ">b", MAGIC, 0),
        patched(GOOD, ">b", MAGIC, 1),
        patched(GOOD, ">i", COUNT, 2),
        patched(GOOD, ">i", COUNT, 0),
        patched(GOOD, ">i", COUNT, -1),
        patched(GOOD, ">i", LAST_DELTA, 5),
        patched(GOOD, ">i", LAST_DELTA, -1),
        patched(GOOD, ">h", ATTRIBUTES, 0x20),
    ],
    ids=[
        "empty",
        "cut",
        "two",
        "base-offset",
        "magic-0",
        "magic-1",
        "count-2",
        "count-0",
        "count-neg",
        "delta-5",
        "delta-neg",
        "control",
    ],
)
def test_a_batch_that_is_no_batch_is_87(raw: RawConnection, new_topic: NewTopic, records: bytes) -> None:
    topic = new_topic()
    code, _ = produce(raw, topic, records)
    assert code == 87
    assert stored(raw, topic) == b""
    raw.assert_alive()


@pytest.mark.parametrize(
    "records",
    [
        patched(GOOD, ">I", CRC, 1234, good_crc=False),
        patched(GOOD, ">b", MAGIC, 3),
        patched(GOOD, ">b", MAGIC, -1),
        patched(GOOD, ">i", LENGTH, 0, good_crc=False),
        patched(GOOD, ">i", LENGTH, -1, good_crc=False),
        patched(GOOD, ">i", LENGTH, 10, good_crc=False),
    ],
    ids=["crc", "magic-3", "magic-neg", "length-0", "length-neg", "length-10"],
)
def test_a_damaged_batch_is_2(raw: RawConnection, new_topic: NewTopic, records: bytes) -> None:
    topic = new_topic()
    assert produce(raw, topic, records)[0] == 2
    assert stored(raw, topic) == b""
    raw.assert_alive()


def test_an_endless_length_is_2(raw: RawConnection, new_topic: NewTopic, is_moldau: bool) -> None:
    records = patched(GOOD, ">i", LENGTH, 2**31 - 1, good_crc=False)
    assert produce(raw, new_topic(), records)[0] == (2 if is_moldau else -1)
    raw.assert_alive()


def test_fewer_bytes_than_a_header_after_a_good_batch_are_cut_off(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert produce(raw, topic, GOOD + b"abc") == (0, 0)
    assert produce(raw, topic, GOOD) == (0, 3)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist(raw: RawConnection, new_topic: NewTopic, is_moldau: bool, codec: int) -> None:
    records = patched(GOOD, ">h", ATTRIBUTES, codec)
    assert produce(raw, new_topic(), records)[0] == (76 if is_moldau else -1)
    raw.assert_alive()


def test_zstd_is_younger_than_version_7(raw: RawConnection, new_topic: NewTopic) -> None:
    topic, records = new_topic(), batch(compression="zstd")
    assert produce(raw, topic, records, version=6)[0] == 76
    assert produce(raw, topic, records, version=7)[0] == 0


@pytest.mark.parametrize("bits", [0x08, 0x40, 0x80])
def test_attribute_bits_that_are_the_brokers_are_never_stored(
    raw: RawConnection, new_topic: NewTopic, is_moldau: bool, bits: int
) -> None:
    topic = new_topic()
    code, _ = produce(raw, topic, patched(GOOD, ">h", ATTRIBUTES, bits))
    assert code in (0, 87)
    if code == 0 and (is_moldau or bits == 0x08):
        assert struct.unpack_from(">h", stored(raw, topic), ATTRIBUTES) == (0,)


@pytest.mark.parametrize(("stamp", "code"), [(2**62, 32), (-(2**63), 32), (0, 0), (-1, 0)])
def test_timestamps_out_of_bounds(raw: RawConnection, new_topic: NewTopic, stamp: int, code: int) -> None:
    records = build_batch([(None, b"v", stamp, ())])
    assert produce(raw, new_topic(), records)[0] == code


def test_a_timestamp_more_than_an_hour_ahead(raw: RawConnection, new_topic: NewTopic) -> None:
    records = build_batch([(None, b"v", now_ms() + 2 * 3_600_000, ())])
    assert produce(raw, new_topic(), records)[0] == 32


def test_the_whole_batch_counts_for_max_message_bytes(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    overhead = len(batch(bytes(1_000_000))) - 1_000_000
    assert produce(raw, topic, batch(bytes(1_048_588 - overhead)))[0] == 0
    assert produce(raw, topic, batch(bytes(1_048_589 - overhead)))[0] == 10


def test_targets_that_are_not_there(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert produce(raw, "no-such-topic", batch())[0] == 3
    assert produce(raw, topic, batch(), partition=1)[0] == 3
    assert produce(raw, topic, batch(), partition=-1)[0] == 3
    assert produce(raw, "a/b", batch())[0] == 3


@pytest.mark.parametrize("topic_id", [bytes(16), b"absent topic id."])
def test_a_topic_id_that_is_unknown(raw: RawConnection, topic_id: bytes) -> None:
    data = TopicProduceData(topic_id=topic_id, partition_data=(PartitionProduceData(records=bytes(batch())),))
    answer = raw.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=(data,)), 13)
    assert answer.responses[0].partition_responses[0].error_code == 100


def test_the_same_partition_twice(raw: RawConnection, new_topic: NewTopic, is_moldau: bool) -> None:
    if not is_moldau:
        return
    topic = new_topic()
    data = (PartitionProduceData(records=bytes(batch(b"a"))), PartitionProduceData(records=bytes(batch(b"b"))))
    request = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=(TopicProduceData(name=topic, partition_data=data),)
    )
    codes = {partition.error_code for partition in raw.ask(request, VERSION).responses[0].partition_responses}
    assert codes == {42}
    assert stored(raw, topic) == b""


def test_internal_topics_take_no_records(raw: RawConnection) -> None:
    assert produce(raw, "__cluster_metadata", batch())[0] == 3


def test_a_transactional_batch_without_a_transactional_id_is_53(raw: RawConnection, new_topic: NewTopic) -> None:
    records = batch(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    topic = new_topic()
    assert produce(raw, topic, records)[0] == 53
    assert stored(raw, topic) == b""


def test_a_repeat_of_one_of_the_last_five_gets_its_old_offset(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    for sequence in range(6):
        assert produce(raw, topic, idempotent(sequence)) == (0, sequence)
    for sequence in (1, 3, 5):
        assert produce(raw, topic, idempotent(sequence)) == (0, sequence)
    assert produce(raw, topic, idempotent(0))[0] == 45
    assert produce(raw, topic, idempotent(6)) == (0, 6)


def test_gaps_and_overlaps_are_45(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert produce(raw, topic, idempotent(0, count=3)) == (0, 0)
    assert produce(raw, topic, idempotent(4))[0] == 45
    assert produce(raw, topic, idempotent(2, count=3))[0] == 45
    assert produce(raw, topic, idempotent(3)) == (0, 3)


def test_the_first_batch_of_an_unknown_producer_may_begin_anywhere(raw: RawConnection, new_topic: NewTopic) -> None:
    assert produce(raw, new_topic(), idempotent(1000)) == (0, 0)


def test_producer_ids_epochs_and_sequences_that_are_odd(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert produce(raw, topic, idempotent(0, epoch=3)) == (0, 0)
    assert produce(raw, topic, idempotent(1, epoch=2))[0] == 47
    assert produce(raw, topic, idempotent(5, epoch=4))[0] == 45
    assert produce(raw, topic, idempotent(0, epoch=4)) == (0, 1)
    assert produce(raw, topic, idempotent(-3, epoch=4))[0] == 87
    assert produce(raw, topic, idempotent(0, producer_id=-2))[0] == 0


def test_sequences_wrap_to_0(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert produce(raw, topic, idempotent(2**31 - 1)) == (0, 0)
    assert produce(raw, topic, idempotent(0)) == (0, 1)


def test_a_connection_that_is_cut_in_mid_frame_leaves_nothing(connect, new_topic: NewTopic) -> None:
    topic, raw = new_topic(), connect()
    whole = request_of(topic, batch(b"cut"))
    payload = request_bytes(whole, VERSION)
    raw.send(struct.pack(">i", len(payload)) + payload[:-3])
    raw.socket.close()
    assert stored(connect(), topic) == b""
