"""With any bytes, a decoder raises only ProtocolError, and allocates at most 64 times the input + 64 KiB."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
import pytest

from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.schema import Array, Bytes, FieldType, Nested, Primitive, Text, fields_of, message_info
from tests.unit.wire.protocol.fuzz import check, decoders_of, fuzz_once, random_message
from tests.unit.wire.protocol.samples import ALL_MESSAGES, MessageClass, sample_id


def test_damaged_and_random_bytes_raise_only_protocol_errors():
    chance = random.Random(7)
    for _ in range(2500):
        fuzz_once(chance)


def test_damaged_and_random_bytes_stay_within_the_allocation_bound():
    chance = random.Random(8)
    for _ in range(300):
        fuzz_once(chance, is_measured=True)


@pytest.mark.parametrize(("cls", "version"), ALL_MESSAGES, ids=sample_id)
def test_every_prefix_of_a_message_is_refused_or_read_but_nothing_else(cls: MessageClass, version: int):
    body = encode_message(random_message(cls, version, random.Random(version)), version)
    for decode in decoders_of(cls, version):
        decode(body)
        for size in range(0, len(body), max(1, len(body) // 60)):
            check(decode, body[:size], is_measured=False)


def smallest(field_type: FieldType, version: int) -> object:
    """The value with the fewest bytes; empty strings rather than null, which needs less memory."""
    if isinstance(field_type, Primitive):
        return bytes(16) if field_type.format == "16s" else 0
    if isinstance(field_type, Text | Bytes):
        return "" if isinstance(field_type, Text) else b""
    if isinstance(field_type, Array):
        return ()
    present = [field for field in fields_of(field_type.struct) if field.is_present(version)]
    return field_type.struct(
        **{field.name: smallest(field.type, version) for field in present if not field.is_tagged(version)}
    )


def shape(field_type: FieldType, version: int) -> object:
    """Two equal shapes are read by the same code."""
    if isinstance(field_type, Array):
        return "array", shape(field_type.element, version)
    if isinstance(field_type, Nested):
        return tuple(
            (field.name, field.is_nullable(version), field.is_tagged(version), shape(field.type, version))
            for field in fields_of(field_type.struct)
            if field.is_present(version)
        )
    return repr(field_type)


def crowded(
    cls: MessageClass, version: int, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], object, msgspec.Struct]]:
    """Messages in which one array, at any level, has thousands of the smallest elements; its path and their shape."""
    for field in fields_of(cls):
        if not field.is_present(version) or not isinstance(field.type, Array):
            continue
        element = field.type.element
        here = (*path, field.name)
        yield here, shape(element, version), cls(**{field.name: (smallest(element, version),) * 3_000})
        if isinstance(element, Nested):
            for inner_path, inner_shape, inner in crowded(element.struct, version, here):
                yield inner_path, inner_shape, cls(**{field.name: (inner,)})


@pytest.mark.slow
@pytest.mark.parametrize("cls", dict.fromkeys(cls for cls, _ in ALL_MESSAGES), ids=sample_id)
def test_the_densest_arrays_stay_within_the_allocation_bound(cls: MessageClass):
    """In each version in which an array's elements have a new shape."""
    measured = set()
    for version in (version for other, version in ALL_MESSAGES if other is cls):
        is_flexible = version in message_info(cls).flexible
        for path, elements, message in crowded(cls, version):
            if (path, elements, is_flexible) in measured:
                continue
            measured.add((path, elements, is_flexible))
            body = encode_message(message, version)
            for decode in decoders_of(cls, version):
                decode(body)
                check(decode, body, is_measured=True)
