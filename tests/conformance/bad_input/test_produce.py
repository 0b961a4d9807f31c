"""Sections "Produce" and "Idempotence" of the table of bad input."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from moldau.wire.records.builder import build_batch
from tests.support.wire import RawConnection, request_bytes
from tests.support.wire_produce import (
    ATTRIBUTES,
    VERSION,
    batch,
    idempotent,
    patched,
    produce,
    request_of,
    stored,
)

NewTopic = Callable[..., str]


def test_acks_0_gets_no_answer(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    # A broker may need a moment to lead a new partition, so the first one waits for a response.
    assert produce(raw, topic, batch(b"loud"))[0] == 0
    raw.start(request_of(topic, batch(b"quiet"), acks=0), VERSION)
    raw.assert_alive()
    assert b"quiet" in stored(raw, topic)


def test_acks_0_with_an_error_closes(raw: RawConnection) -> None:
    raw.start(request_of("no-such-topic", batch(), acks=0), VERSION)
    raw.assert_closed()


GOOD = bytes(batch(b"first", b"second", b"third"))


def test_fewer_bytes_than_a_header_after_a_good_batch_are_cut_off(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert produce(raw, topic, GOOD + b"abc") == (0, 0)
    assert produce(raw, topic, GOOD) == (0, 3)


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


def test_the_whole_batch_counts_for_max_message_bytes(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    overhead = len(batch(bytes(1_000_000))) - 1_000_000
    assert produce(raw, topic, batch(bytes(1_048_588 - overhead)))[0] == 0
    assert produce(raw, topic, batch(bytes(1_048_589 - overhead)))[0] == 10


def test_a_transactional_batch_without_a_transactional_id_is_53(raw: RawConnection, new_topic: NewTopic) -> None:
    records = batch(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    topic = new_topic()
    assert produce(raw, topic, records)[0] == 53
    assert stored(raw, topic) == b""


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
