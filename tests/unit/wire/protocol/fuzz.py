"""Feeds every decoder of the protocol with damaged and random bytes.

`make fuzz` runs for long with fresh seeds; the test next to it runs a fixed seed for a short time.
"""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Iterator

import msgspec

from moldau.errors import ProtocolError
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.fast_fetch import decode_fetch_request
from moldau.wire.protocol.fast_produce import decode_produce_request
from moldau.wire.protocol.headers import decode_request_header, decode_response_header
from moldau.wire.protocol.messages.fetch import FetchRequest
from moldau.wire.protocol.messages.group_records import GroupMetadataValue, OffsetCommitValue
from moldau.wire.protocol.messages.produce import ProduceRequest
from moldau.wire.protocol.record_codec import decode_group_key, decode_metadata_record, decode_record_value
from moldau.wire.protocol.schema import Array, Bytes, FieldType, Primitive, Text, fields_of
from tests.unit.wire.protocol.samples import ALL_MESSAGES, MessageClass

Decode = Callable[[bytes], object]

NASTY = (
    b"\x00",
    b"\x01",
    b"\x02",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
)


def random_message(cls: MessageClass, version: int, chance: random.Random) -> msgspec.Struct:
    values = {}
    for field in fields_of(cls):
        if not field.is_present(version) or (field.is_tagged(version) and chance.random() < 0.5):
            continue
        if field.is_nullable(version) and chance.random() < 0.3:
            values[field.name] = None
        else:
            values[field.name] = _random_value(field.type, version, chance)
    return cls(**values)


def _random_value(field_type: FieldType, version: int, chance: random.Random) -> object:
    if isinstance(field_type, Primitive):
        if field_type.format == "16s":
            return chance.randbytes(16)
        if field_type.format in "?d":
            return chance.choice((0, 1))
        bits = 8 * field_type.size
        return chance.getrandbits(bits) if field_type.format == "H" else chance.getrandbits(bits) - (1 << bits - 1)
    if isinstance(field_type, Text):
        return "n" * chance.choice((0, 1, 5, 127, 130))
    if isinstance(field_type, Bytes):
        return chance.randbytes(chance.choice((0, 1, 5, 127, 130)))
    if isinstance(field_type, Array):
        return tuple(_random_value(field_type.element, version, chance) for _ in range(chance.randint(0, 3)))
    return random_message(field_type.struct, version, chance)


def mutate(body: bytes, chance: random.Random) -> bytes:
    """A few bytes overwritten, inserted, removed or repeated; often cut."""
    out = bytearray(body)
    for _ in range(chance.randint(1, 4)):
        place = chance.randint(0, len(out))
        kind = chance.randrange(4)
        if kind == 0:
            out[place : place + 1] = chance.choice(NASTY)
        elif kind == 1:
            out[place:place] = chance.choice(NASTY)
        elif kind == 2:
            del out[place : place + chance.randint(1, 4)]
        else:
            out[place:place] = out[place : place + chance.randint(1, 8)] * chance.randint(1, 20)
    return bytes(out[: chance.randint(0, len(out))]) if chance.random() < 0.3 else bytes(out)


def decoders_of(cls: MessageClass, version: int) -> Iterator[Decode]:
    yield lambda data: decode_message(cls, version, data)
    if cls is ProduceRequest:
        yield lambda data: decode_produce_request(memoryview(data), 0, version)
    if cls is FetchRequest:
        yield lambda data: decode_fetch_request(memoryview(data), 0, version)


OTHER_DECODERS: tuple[Decode, ...] = (
    decode_request_header,
    lambda data: decode_response_header(data, 0),
    lambda data: decode_response_header(data, 1),
    decode_metadata_record,
    decode_group_key,
    lambda data: decode_record_value(OffsetCommitValue, data),
    lambda data: decode_record_value(GroupMetadataValue, data),
)


def peak_bytes(decode: Decode, data: bytes) -> int:
    """Peak bytes that were allocated while `decode` read `data`. Raises its errors except ProtocolError."""
    tracemalloc.start()
    try:
        result = decode(data)
    except ProtocolError:
        result = None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del result
    return peak


def check(decode: Decode, data: bytes, *, is_measured: bool) -> None:
    """Raises all errors except ProtocolError, and AssertionError beyond the allocation bound."""
    if is_measured:
        peak = peak_bytes(decode, data)
        assert peak <= 64 * len(data) + 65_536, f"{peak} bytes for an input of {len(data)}: {data[:100]!r}"
        return
    try:
        decode(data)
    except ProtocolError:
        pass


def fuzz_once(chance: random.Random, *, is_measured: bool = False) -> None:
    """One input for one decoder."""
    cls, version = chance.choice(ALL_MESSAGES)
    body = encode_message(random_message(cls, version, chance), version)
    if chance.random() < 0.1:
        check(chance.choice(OTHER_DECODERS), mutate(body, chance), is_measured=is_measured)
    for decode in decoders_of(cls, version):
        decode(body)
        for _ in range(4):
            check(decode, mutate(body, chance), is_measured=is_measured)
        check(decode, chance.randbytes(chance.randint(0, 60)), is_measured=is_measured)
