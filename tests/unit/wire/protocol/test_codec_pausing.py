"""The codec with pauses gives the same results as the other one, and never runs for long."""

from __future__ import annotations

from typing import TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import ProtocolError
from moldau.types import Pausing
from moldau.wire.protocol.codec import UNENCODABLE, decode_message, decode_pausing, encode_message, encode_pausing
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.runtime import ELEMENTS_BETWEEN_PAUSES
from tests.unit.wire.protocol.samples import ALL_MESSAGES, MessageClass, generated, messages, sample_id

Value = TypeVar("Value")

few = generated(5)


def run(work: Pausing[Value]) -> tuple[int, Value]:
    """The number of its pauses, and its result."""
    pauses = 0
    while True:
        try:
            next(work)
            pauses += 1
        except StopIteration as end:
            return pauses, end.value


def encoded(message: msgspec.Struct, version: int) -> tuple[int, bytes]:
    parts: list[bytes] = []
    pauses, _ = run(encode_pausing(message, version, parts))
    return pauses, b"".join(parts)


@pytest.mark.parametrize(("cls", "version"), ALL_MESSAGES, ids=sample_id)
def test_every_message_is_the_same_with_pauses(cls: MessageClass, version: int) -> None:
    @few
    @given(messages(cls, version), st.binary(max_size=3))
    def agree(message, before):
        body = encode_message(message, version)
        assert encoded(message, version)[1] == body
        for make in (bytes, bytearray, memoryview):
            _, decoded = run(decode_pausing(cls, version, make(before + body), len(before)))
            assert decoded == decode_message(cls, version, body)[0]

    agree()


@pytest.mark.parametrize("version", [1, 9, 12])
def test_a_long_message_pauses_behind_every_few_elements(version: int) -> None:
    count = 1_000 * ELEMENTS_BETWEEN_PAUSES
    message = MetadataRequest(topics=tuple(MetadataRequestTopic(name=f"t{number}") for number in range(count)))
    body = encode_message(message, version)
    assert encoded(message, version) == (1_000, body)
    assert run(decode_pausing(MetadataRequest, version, body)) == (1_000, message)


def test_elements_of_inner_arrays_count_too() -> None:
    rows = tuple(ListOffsetsPartition(partition_index=number) for number in range(2 * ELEMENTS_BETWEEN_PAUSES))
    message = ListOffsetsRequest(topics=(ListOffsetsTopic("a", rows), ListOffsetsTopic("b", rows)))
    body = encode_message(message, 7)
    assert encoded(message, 7)[0] == 4
    assert run(decode_pausing(ListOffsetsRequest, 7, body))[0] == 4


@pytest.mark.parametrize("cut", [1, 5_000, 20_000])
def test_a_cut_message_is_a_protocol_error_behind_its_pauses(cut: int) -> None:
    message = MetadataRequest(topics=tuple(MetadataRequestTopic(name=f"t{number}") for number in range(5_000)))
    body = encode_message(message, 9)
    with pytest.raises(ProtocolError):
        run(decode_pausing(MetadataRequest, 9, body[:-cut]))


def test_a_value_that_its_field_cannot_hold_is_a_protocol_error_behind_the_pauses() -> None:
    good = MetadataRequestTopic(name="t")
    message = MetadataRequest(topics=(*(good,) * 2_000, MetadataRequestTopic(name=None)))
    with pytest.raises(UNENCODABLE):
        encoded(message, 9)
