"""Texts near the limit of a string, 32,767 bytes: messages are shortened, and received texts can be sent back."""

from __future__ import annotations

import msgspec
import pytest

from moldau.errors import ProtocolError
from moldau.wire.protocol import fast_fetch, fast_produce
from moldau.wire.protocol.api_keys import API_VERSIONS, CONTROLLER_API_VERSIONS, ApiKey, response_header_version
from moldau.wire.protocol.codec import decode_message, encode_message, encode_pausing
from moldau.wire.protocol.fast_produce import RecordErrors
from moldau.wire.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
)
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.produce import ProduceResponse
from moldau.wire.protocol.schema import Array, FieldType, Nested, Text, fields_of
from tests.unit.wire.protocol.samples import MessageClass, sample_id, versions_of

LONGEST = 32_767
TOO_LONG = "ab" + "€" * 20_000
"""Of characters of three bytes: the limit falls inside one of them."""
SHORTENED = "ab" + "€" * 10_920 + "..."


def is_sentence(name: str) -> bool:
    return "message" in name or "reason" in name


def has_sentence(field_type: FieldType) -> bool:
    if isinstance(field_type, Array):
        return has_sentence(field_type.element)
    if not isinstance(field_type, Nested):
        return False
    return any(
        (isinstance(field.type, Text) and is_sentence(field.name)) or has_sentence(field.type)
        for field in fields_of(field_type.struct)
    )


def filled(cls: MessageClass, version: int, text: str) -> msgspec.Struct:
    """One element in each array that leads to a sentence, and `text` as each sentence."""
    values: dict[str, object] = {}
    for field in fields_of(cls):
        if not field.is_present(version):
            continue
        element = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(element, Text) and is_sentence(field.name):
            values[field.name] = text
        elif isinstance(element, Nested) and has_sentence(element):
            value = filled(element.struct, version, text)
            values[field.name] = (value,) if isinstance(field.type, Array) else value
    return cls(**values)


RESPONSES = [
    (cls, version)
    for cls, version in versions_of((*API_VERSIONS.values(), *CONTROLLER_API_VERSIONS.values()))
    if cls.__name__.endswith("Response") and has_sentence(Nested(cls))
]


def test_the_responses_with_error_messages_are_found():
    names = {cls.__name__ for cls, _ in RESPONSES}
    assert len(names) > 25
    assert {"CreateTopicsResponse", "DescribeGroupsResponse", "UpdateFeaturesResponse", "ProduceResponse"} <= names


@pytest.mark.parametrize(("cls", "version"), RESPONSES, ids=sample_id)
def test_an_error_message_that_is_too_long_is_shortened_in_every_response(cls: MessageClass, version: int):
    body = encode_message(filled(cls, version, TOO_LONG), version)
    assert decode_message(cls, version, body) == (filled(cls, version, SHORTENED), len(body))
    parts: list[bytes] = []
    for _ in encode_pausing(filled(cls, version, TOO_LONG), version, parts):
        pass
    assert b"".join(parts) == body


@pytest.mark.parametrize("version", range(8, fast_produce.MAX_VERSION + 1))
@pytest.mark.parametrize("message", [TOO_LONG, RecordErrors(TOO_LONG, ((0, TOO_LONG),))], ids=["one", "of records"])
def test_the_fast_answer_to_produce_shortens_too(version: int, message: str | RecordErrors):
    topic = bytes(16) if version >= 13 else b"t"
    sent = fast_produce.encode_produce_response(version, 1, [(topic, 0, 87, -1, -1, -1, message)], 0)
    _, position = decode_response_header(sent[4:], response_header_version(ApiKey.PRODUCE, version))
    answer = decode_message(ProduceResponse, version, sent, 4 + position)[0].responses[0].partition_responses[0]
    assert answer.error_message == SHORTENED
    assert [row.batch_index_error_message for row in answer.record_errors] == (
        [] if isinstance(message, str) else [SHORTENED]
    )


def test_an_error_message_of_the_greatest_length_is_sent_as_it_is():
    text = "x" * LONGEST
    for cls, version in RESPONSES:
        assert decode_message(cls, version, encode_message(filled(cls, version, text), version))[0] == filled(
            cls, version, text
        )


BAD_BYTES = b"\xff" * 10_923


def metadata_request(version: int, name: bytes) -> bytes:
    letters = "x" * len(name)
    body = encode_message(MetadataRequest(topics=(MetadataRequestTopic(name=letters),)), version)
    return body.replace(letters.encode(), name)


@pytest.mark.parametrize("version", [4, 9])
def test_a_string_is_read_only_if_it_can_be_sent_back(version: int):
    request, _ = decode_message(MetadataRequest, version, metadata_request(version, BAD_BYTES[1:]))
    assert encode_message(request, version)
    with pytest.raises(ProtocolError, match="not UTF-8"):
        decode_message(MetadataRequest, version, metadata_request(version, BAD_BYTES))
    good, _ = decode_message(MetadataRequest, version, metadata_request(version, "é".encode() * 16_383))
    assert encode_message(good, version)


def test_so_it_is_with_the_client_id():
    header = encode_request_header(RequestHeader(3, 4, 1, "x" * len(BAD_BYTES)))
    assert encode_request_header(decode_request_header(header)[0]) == header
    with pytest.raises(ProtocolError, match="not UTF-8"):
        decode_request_header(header.replace(b"x" * len(BAD_BYTES), BAD_BYTES))


def test_so_it_is_with_the_topics_of_produce_and_fetch():
    size = len(BAD_BYTES).to_bytes(2, "big")
    one = b"\x00\x00\x00\x01"
    produce = b"\xff\xff\x00\x01\x00\x00\x00\x00" + one + size + BAD_BYTES + one + bytes(4) + one + b"\x00"
    with pytest.raises(ProtocolError, match="not UTF-8"):
        fast_produce.decode_produce_request(memoryview(produce), 0, 3)
    fetch = bytes(4) * 4 + b"\x00" + one + size + BAD_BYTES + one + bytes(4) + bytes(8) + bytes(4)
    with pytest.raises(ProtocolError, match="not UTF-8"):
        fast_fetch.decode_fetch_request(memoryview(fetch), 0, 4)
