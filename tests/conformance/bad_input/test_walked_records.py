"""Section "Produce" of the table of bad input: the rows about the contents of a batch, on topics where every record is
read (compacted ones, and those with their own codec). Apache Kafka reads them on every topic."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable

import pytest

from tests.support.hostile_batches import GZIP, LZ4, SNAPPY, ZSTD, batch_of, bomb, record, varint
from tests.support.wire import RawConnection
from tests.support.wire_produce import (
    BASE_TIME,
    COUNT,
    MAX_TIME,
    now_ms,
    patched,
    produce,
    stored,
)

NewTopic = Callable[..., str]
WALKED = [{"cleanup.policy": "compact"}, {"compression.type": "lz4"}]


@pytest.fixture(params=WALKED, ids=["compacted", "lz4"])
def walked_topic(request: pytest.FixtureRequest, new_topic: NewTopic) -> str:
    return new_topic(**request.param)


GOOD = record(0) + record(1) + record(2)


def test_records_made_by_hand_are_good(raw: RawConnection, walked_topic: str) -> None:
    assert produce(raw, walked_topic, batch_of(GOOD, 3)) == (0, 0)
    assert produce(raw, walked_topic, batch_of(gzip.compress(GOOD), 3, GZIP)) == (0, 3)


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (GOOD, 2),
        (GOOD, 4),
        (record(length=1), 1),
        (record(length=-1), 1),
        (record(value_size=varint(100)), 1),
        (record(value_size=varint(0)), 1),
        (record(headers=varint(-1)), 1),
        (record(headers=varint(5)), 1),
        (record(headers=varint(1) + varint(-1) + varint(-1)), 1),
        (b"", 1),
    ],
    ids=[
        "more-than-counted",
        "fewer-than-counted",
        "length-1-more",
        "length-1-less",
        "value-beyond",
        "value-shorter",
        "headers-negative",
        "headers-beyond",
        "null-header-key",
        "nothing",
    ],
)
@pytest.mark.parametrize("codec", [0, GZIP])
def test_records_that_are_not_what_they_say(
    raw: RawConnection, walked_topic: str, is_moldau: bool, payload: bytes, count: int, codec: int
) -> None:
    records = batch_of(gzip.compress(payload) if codec else payload, count, codec)
    code, _ = produce(raw, walked_topic, records)
    if code == 0 and not is_moldau and codec and count == 1:
        return  # on compacted topics Apache Kafka skips compressed records without checking their length
    assert code == 87
    assert stored(raw, walked_topic) == b""
    raw.assert_alive()


LZ4_LINKED = bytes.fromhex("04224d18") + bytes([0x40, 0x40, 0xC0]) + struct.pack("<I", 0)


@pytest.mark.parametrize(
    ("payload", "count", "codec"),
    [
        (b"\xff" * 11, 1, 0),
        (record(key_size=b"\xff" * 9 + b"\1"), 1, 0),
        (b"no gzip at all", 1, GZIP),
        (gzip.compress(GOOD)[:-9], 3, GZIP),
        (b"\xff\xff\xff\xffgarbage", 1, SNAPPY),
        (LZ4_LINKED, 1, LZ4),
        (b"no zstd at all", 1, ZSTD),
        (b"", 1, GZIP),
    ],
    ids=["length-varint", "key-varint", "gzip", "gzip-cut", "snappy", "lz4-linked", "zstd", "gzip-empty"],
)
def test_what_cannot_be_read_is_the_clients_fault(
    raw: RawConnection, walked_topic: str, is_moldau: bool, payload: bytes, count: int, codec: int
) -> None:
    """Apache Kafka answers -1 to most of them."""
    code, _ = produce(raw, walked_topic, batch_of(payload, count, codec))
    assert code == 87 if is_moldau else code in (87, -1, 2)
    assert stored(raw, walked_topic) == b""
    raw.assert_alive()


@pytest.mark.parametrize("deltas", [(0, 2, 1), (1, 2, 3), (0, 0, 1), (0, 7, 2), (-1, 0, 1)])
@pytest.mark.parametrize("codec", [0, GZIP])
def test_offset_deltas_that_are_not_0_1_2(
    raw: RawConnection, walked_topic: str, is_moldau: bool, deltas: tuple[int, ...], codec: int
) -> None:
    """Apache Kafka stores them if they are not compressed, and its consumers see such offsets."""
    payload = b"".join(map(record, deltas))
    code, _ = produce(raw, walked_topic, batch_of(gzip.compress(payload) if codec else payload, 3, codec))
    if is_moldau:
        assert code == 87
        assert stored(raw, walked_topic) == b""
    raw.assert_alive()


@pytest.mark.parametrize(
    ("payload", "codec"),
    [
        (gzip.compress(record()) + b"junk behind the stream", GZIP),
        (record(attributes=0xFF), 0),
    ],
    ids=["junk-after-gzip", "attributes"],
)
def test_what_is_strange_but_legal(raw: RawConnection, walked_topic: str, payload: bytes, codec: int) -> None:
    assert produce(raw, walked_topic, batch_of(payload, 1, codec)) == (0, 0)


def test_a_key_of_length_minus_two_is_null(raw: RawConnection, new_topic: NewTopic) -> None:
    records = batch_of(record(key=None, key_size=varint(-2)), 1)
    assert produce(raw, new_topic(), records) == (0, 0)
    assert produce(raw, new_topic(**{"compression.type": "lz4"}), records) == (0, 0)
    assert produce(raw, new_topic(**{"cleanup.policy": "compact"}), records)[0] == 87


@pytest.mark.slow
def test_what_expands_beyond_the_cap(raw: RawConnection, walked_topic: str, is_moldau: bool) -> None:
    """400 MiB of zeros in 0.4 MB: read only up to the cap, while the canary is served."""
    if is_moldau:
        assert produce(raw, walked_topic, batch_of(bomb(400), 1, GZIP))[0] == 87
        assert stored(raw, walked_topic) == b""
    raw.assert_alive()


def test_a_maximum_timestamp_that_lies_is_corrected_where_records_are_read(
    raw: RawConnection, walked_topic: str
) -> None:
    true = struct.unpack_from(">q", good := batch_of(gzip.compress(GOOD), 3, GZIP), BASE_TIME)[0]
    assert produce(raw, walked_topic, bytes(patched(good, ">q", MAX_TIME, true + 60_000))) == (0, 0)
    kept = stored(raw, walked_topic)
    assert struct.unpack_from(">q", kept, MAX_TIME)[0] == true
    assert struct.unpack_from(">i", kept, COUNT)[0] == 3


def test_records_out_of_the_times_of_their_topic(raw: RawConnection, new_topic: NewTopic) -> None:
    """A record must not hide behind the timestamps in its batch's header."""
    old = now_ms() - 10_000_000
    body = bytes([0]) + varint(old - now_ms()) + varint(0) + varint(1) + b"k" + varint(1) + b"v" + varint(0)
    payload = varint(len(body)) + body
    limits = {"cleanup.policy": "compact", "message.timestamp.before.max.ms": "1000000"}
    assert produce(raw, new_topic(**limits), batch_of(payload, 1))[0] == 32
