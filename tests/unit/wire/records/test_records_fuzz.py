"""With any bytes, reading records raises only ProtocolError, and allocates at most 64 times the input + 64 KiB."""

from __future__ import annotations

import random
import tracemalloc

from moldau.errors import ProtocolError
from moldau.wire.records.batch import HEADER, HEADER_SIZE, iterate_batches
from moldau.wire.records.builder import build_batch
from moldau.wire.records.record import read_records
from moldau.wire.records.varint import encode_varint


def peak_of_reading(batch: bytes) -> int:
    tracemalloc.start()
    try:
        read_records(batch)
    except ProtocolError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


def test_mutated_batches_raise_only_protocol_errors_within_the_allocation_bound():
    chance = random.Random(20)
    seed_rows = [(b"key", b"value" * 4, 1000 + index, [("h", b"x"), ("", None)]) for index in range(12)]
    seeds = [build_batch(seed_rows), build_batch([(None, None, 0, ())] * 40), build_batch([])]
    for _ in range(3000):
        batch = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 6)):
            batch[chance.randrange(len(batch))] = chance.randrange(256)
        batch[16] = 2
        batch[21:23] = b"\x00\x00"  # codecs have a separate bound and test
        batch = batch[: chance.randint(len(batch) // 2, len(batch))]
        try:
            read_records(batch)
            list(iterate_batches(batch))
        except ProtocolError:
            pass


def payload_batch(payload: bytes, count: int) -> bytes:
    return HEADER.pack(0, HEADER_SIZE - 12 + len(payload), 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, count) + payload


def test_the_densest_records_and_headers_stay_within_the_allocation_bound():
    empty_record = b"\x0c\x00\x00\x00\x01\x01\x00"
    inputs = [payload_batch(empty_record * 20_000, 20_000)]
    for header in (b"\x00\x01", b"\x02\xff\x01", b"\x04ab\x04ab"):
        body = b"\x00\x00\x00\x01\x01" + encode_varint(20_000) + header * 20_000
        inputs.append(payload_batch(encode_varint(len(body)) + body, 1))
    inputs.append(payload_batch(b"", 2**31 - 1))
    for batch in inputs:
        assert peak_of_reading(batch) <= 64 * len(batch) + 65_536
