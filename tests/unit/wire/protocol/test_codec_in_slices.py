"""The codec that pauses says what the other one says, and never goes on for long."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import ProtocolError
from moldau.wire.protocol.codec import decode_in_slices, decode_message, encode_in_slices, encode_message
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.runtime import SLICE_ELEMENTS
from tests.unit.wire.protocol.samples import ALL_MESSAGES, MessageClass, generated, messages, sample_id

Value = TypeVar("Value")

few = generated(5)


def run(work: Generator[Any, None, Value]) -> tuple[list[Any], Value]:
    """What it gave at its pauses, and at its end."""
    given: list[Any] = []
    while True:
        try:
            given.append(next(work))
        except StopIteration as end:
            return given, end.value


def encoded(message: Any, version: int) -> list[bytes]:
    """The pieces of the body."""
    first, rest = encode_in_slices(message, version)
    return [first, *(rest or ())]


@pytest.mark.parametrize(("cls", "version"), ALL_MESSAGES, ids=sample_id)
def test_every_message_is_the_same_in_slices(cls: MessageClass, version: int) -> None:
    @few
    @given(messages(cls, version), st.binary(max_size=3))
    def agree(message, before):
        body = encode_message(message, version)
        assert b"".join(encoded(message, version)) == body
        for make in (bytes, bytearray, memoryview):
            _, decoded = run(decode_in_slices(cls, version, make(before + body), len(before)))
            assert decoded == decode_message(cls, version, body)[0]

    agree()


@pytest.mark.parametrize("version", [1, 9, 12])
def test_a_long_message_pauses_behind_every_few_elements(version: int) -> None:
    message = MetadataRequest(topics=tuple(MetadataRequestTopic(name=f"t{number}") for number in range(10_000)))
    body = encode_message(message, version)
    pieces = encoded(message, version)
    assert len(pieces) == 10_000 // SLICE_ELEMENTS + 1
    assert max(map(len, pieces)) <= len(body) // (len(pieces) - 1) + 1_000
    assert b"".join(pieces) == body
    pauses, decoded = run(decode_in_slices(MetadataRequest, version, body))
    assert len(pauses) == 10_000 // SLICE_ELEMENTS
    assert decoded == message


def test_elements_of_inner_arrays_count_too() -> None:
    rows = tuple(ListOffsetsPartition(partition_index=number) for number in range(2 * SLICE_ELEMENTS))
    message = ListOffsetsRequest(topics=(ListOffsetsTopic("a", rows), ListOffsetsTopic("b", rows)))
    body = encode_message(message, 7)
    assert len(encoded(message, 7)) == 5
    assert len(run(decode_in_slices(ListOffsetsRequest, 7, body))[0]) == 4


@pytest.mark.parametrize("cut", [1, 5_000, 20_000])
def test_a_cut_message_is_a_protocol_error_behind_its_pauses(cut: int) -> None:
    message = MetadataRequest(topics=tuple(MetadataRequestTopic(name=f"t{number}") for number in range(5_000)))
    body = encode_message(message, 9)
    with pytest.raises(ProtocolError):
        run(decode_in_slices(MetadataRequest, 9, body[:-cut]))


def test_a_value_that_its_field_cannot_hold_is_a_protocol_error_behind_the_pauses() -> None:
    good = MetadataRequestTopic(name="t")
    message = MetadataRequest(topics=(*(good,) * 2_000, MetadataRequestTopic(name=None)))
    with pytest.raises(ProtocolError):
        encoded(message, 9)
