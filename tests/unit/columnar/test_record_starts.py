"""Large batches are walked in pieces: each start is right with any values, and damage is reported as by a plain
walk."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from moldau.columnar.record_splits import split_places
from moldau.columnar.record_starts import record_starts
from moldau.wire.records.varint import decode_varint, encode_varint

COUNT = 5_000


def record(offset_delta: int, value: bytes, timestamp_delta: int = 0, key: bytes = b"k") -> bytes:
    fields = b"\0" + encode_varint(timestamp_delta) + encode_varint(offset_delta)
    fields += encode_varint(len(key)) + key + encode_varint(len(value)) + value + encode_varint(0)
    return encode_varint(len(fields)) + fields


def payload_of(records: Sequence[bytes]) -> tuple[bytes, list[int]]:
    """The bytes of a batch after its header, and the start of each record."""
    starts, position = [], 0
    for one in records:
        starts.append(position)
        position += len(one)
    return b"".join(records), starts


def text(chance: random.Random, size: int) -> bytes:
    return b"abcdefgh 0123456"[: size % 17] * (size // 16 + 1)


def noise(chance: random.Random, size: int) -> bytes:
    return chance.randbytes(size)


def records_within(chance: random.Random, size: int) -> bytes:
    """Whole records of the same deltas, as in a topic that holds copies of batches."""
    inner = b"".join(record(chance.randrange(COUNT), b"v" * chance.randrange(9)) for _ in range(size // 16))
    return inner + b"\x80" * chance.randrange(3)


def check(records: Sequence[bytes]) -> None:
    """Twice the batch in one buffer with other bytes: all starts are found, and none is wrong."""
    payload, starts = payload_of(records)
    data = b"?" * 61 + payload + b"?" * 61 + payload
    begin = 61 + len(payload) + 61
    found, wrong = record_starts(
        memoryview(bytearray(data)), [len(records)] * 2, [61, begin], [61 + len(payload), len(data)]
    )
    assert wrong is None
    assert found.tolist() == [61 + start for start in starts] + [begin + start for start in starts]


@pytest.mark.parametrize("value", [text, noise, records_within])
@pytest.mark.parametrize("mean_bytes", [5, 60, 200, 700])
def test_records_of_any_size_are_found(value: Callable[[random.Random, int], bytes], mean_bytes: int):
    chance = random.Random(mean_bytes)
    rows = [value(chance, int(chance.expovariate(1 / mean_bytes))) for _ in range(COUNT)]
    check([record(index, row, index // 7) for index, row in enumerate(rows)])


@pytest.mark.parametrize("timestamp_delta", [0, -1, 63, -70, 9_000, 2_000_000, 2**31, -(2**40)])
def test_timestamps_of_any_width_are_passed(timestamp_delta: int):
    chance = random.Random(timestamp_delta)
    check([record(index, text(chance, chance.randrange(90)), timestamp_delta + index) for index in range(COUNT)])


def test_offsets_with_holes_are_walked():
    chance = random.Random(3)
    deltas = sorted(chance.sample(range(3 * COUNT), COUNT))
    check([record(delta, text(chance, chance.randrange(90))) for delta in deltas])


def test_a_record_with_a_length_of_three_bytes_stands_between_small_ones():
    chance = random.Random(5)
    rows = [text(chance, chance.randrange(90)) for _ in range(COUNT)]
    for place in (0, 1_000, 2_345, COUNT - 1):
        check([record(index, row if index != place else b"v" * 20_000) for index, row in enumerate(rows)])


def test_places_are_found_in_plain_text_and_are_right():
    chance = random.Random(8)
    payload, starts = payload_of([record(index, text(chance, chance.randrange(200)), 3) for index in range(COUNT)])
    places = split_places(payload, 0, len(payload), 0, COUNT, 50)
    assert len(places) > 0.9 * COUNT / 50
    assert places == [(delta, starts[delta]) for delta, _ in places]


def test_places_continue_behind_records_that_are_found_already():
    payload, starts = payload_of([record(index, b"v" * (index % 90)) for index in range(COUNT)])
    places = split_places(payload, starts[400], len(payload), 400, COUNT - 400, 50)
    assert places[0] == (400, starts[400])
    assert places == [(delta, starts[delta]) for delta, _ in places]


def test_damage_names_its_batch():
    chance = random.Random(9)
    records = [record(index, text(chance, chance.randrange(90))) for index in range(COUNT)]
    payload, starts = payload_of(records)
    for place in (0, 77, 2_500, COUNT - 1):
        for shift in (2, -2, 40):
            damaged = bytearray(payload)
            length, _ = decode_varint(payload, starts[place])
            written = encode_varint(max(1, length + shift))
            damaged[starts[place] : starts[place] + len(written)] = written
            data = payload + bytes(damaged) + payload
            bounds = [0, len(payload), len(payload) + len(damaged), len(data)]
            _, wrong = record_starts(data, [COUNT] * 3, bounds[:-1], bounds[1:])
            assert wrong == 1, (place, shift)
