"""One connection without a socket: versions, correlation, frames, invalid responses."""

from __future__ import annotations

import pytest

from moldau.client.protocol.connection import MAX_IN_FLIGHT, MAX_RESPONSE_BYTES, ClientProtocol
from moldau.errors import InvariantError, KafkaError, ProtocolError
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.headers import decode_request_header, encode_response_header
from moldau.wire.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from moldau.wire.protocol.messages.metadata import MetadataRequest

UNSUPPORTED_VERSION = 35


def asked(parts: list[bytes]) -> tuple[int, int, int]:
    """The key, the version and the correlation id of a request's frame."""
    header, _ = decode_request_header(b"".join(parts)[4:])
    return header.api_key, header.api_version, header.correlation_id


def versions_body(version: int, error_code: int = 0, **ranges: tuple[int, int]) -> bytes:
    rows = tuple(ApiVersion(ApiKey[name], *both) for name, both in ranges.items())
    return encode_message(ApiVersionsResponse(error_code=error_code, api_keys=rows), version)


def answer(protocol: ClientProtocol, correlation_id: int, header_version: int = 0, body: bytes = b"") -> memoryview:
    return protocol.response_body(memoryview(encode_response_header(correlation_id, header_version) + body))


def connected(**ranges: tuple[int, int]) -> ClientProtocol:
    protocol = ClientProtocol("broker:9092")
    _, version, correlation_id = asked(protocol.versions_request())
    body = answer(protocol, correlation_id, body=versions_body(version, **ranges))
    assert protocol.take_versions(body) is None
    return protocol


def test_the_highest_version_that_both_sides_know_is_used():
    protocol = connected(METADATA=(3, 7), FETCH=(0, 1_000), PRODUCE=(900, 1_000))
    assert protocol.version_of(ApiKey.METADATA) == 7
    assert protocol.version_of(ApiKey.METADATA, max_version=5) == 5
    assert protocol.version_of(ApiKey.FETCH) < 1_000
    for api_key, max_version in ((ApiKey.METADATA, 2), (ApiKey.PRODUCE, None), (ApiKey.LIST_GROUPS, None)):
        with pytest.raises(KafkaError, match=f"broker:9092 serves no version of {api_key.name}"):
            protocol.version_of(api_key, max_version=max_version)


def test_a_listener_without_metadata_is_told_to_be_a_controllers():
    for ranges, is_controller in (({"FETCH": (0, 18)}, True), ({"METADATA": (900, 1_000)}, False)):
        with pytest.raises(KafkaError) as refused:
            connected(**ranges).version_of(ApiKey.METADATA)
        assert ("the listener of a controller" in str(refused.value)) == is_controller


def test_an_older_broker_is_asked_once_more_in_version_0():
    protocol = ClientProtocol("broker:9092")
    _, first, correlation_id = asked(protocol.versions_request())
    refused = versions_body(0, UNSUPPORTED_VERSION)
    again = protocol.take_versions(answer(protocol, correlation_id, body=refused))
    assert again is not None
    key, second, correlation_id = asked(again)
    assert (key, first, second) == (ApiKey.API_VERSIONS, 3, 0)
    body = answer(protocol, correlation_id, body=versions_body(0, METADATA=(0, 5)))
    assert protocol.take_versions(body) is None
    assert protocol.version_of(ApiKey.METADATA) == 5


def test_a_broker_that_refuses_version_0_too_is_refused():
    protocol = ClientProtocol("broker:9092")
    _, _, correlation_id = asked(protocol.versions_request())
    again = protocol.take_versions(answer(protocol, correlation_id, body=versions_body(0, UNSUPPORTED_VERSION)))
    assert again is not None
    body = answer(protocol, asked(again)[2], body=versions_body(0, UNSUPPORTED_VERSION))
    with pytest.raises(KafkaError, match="broker:9092 refused ApiVersions"):
        protocol.take_versions(body)


def test_answers_belong_to_requests_in_their_order():
    protocol = connected(METADATA=(0, 12))
    ids = [asked(protocol.request(MetadataRequest(), version))[2] for version in (8, 9)]
    assert len(protocol.pending) == 2
    assert bytes(answer(protocol, ids[0], 0, b"first")) == b"first"
    # from v9 on the response header ends in tagged fields
    assert bytes(answer(protocol, ids[1], 1, b"second")) == b"second"
    assert not protocol.pending


def test_an_answer_to_another_request_is_refused():
    protocol = connected(METADATA=(0, 12))
    first, second = (asked(protocol.request(MetadataRequest(), 8))[2] for _ in range(2))
    with pytest.raises(ProtocolError, match=f"broker:9092 answered request {second}, but request {first} was next"):
        answer(protocol, second)


def test_the_length_of_an_answer_is_bounded_and_another_protocol_is_named():
    protocol = ClientProtocol("broker:9092")
    assert protocol.response_length(MAX_RESPONSE_BYTES.to_bytes(4, "big")) == MAX_RESPONSE_BYTES
    longer = (MAX_RESPONSE_BYTES + 1).to_bytes(4, "big")
    for prefix, words in ((longer, f"a frame of {MAX_RESPONSE_BYTES + 1} bytes"), (b"HTTP", "an HTTP server")):
        with pytest.raises(ProtocolError, match=rf"^broker:9092: .*{words}"):
            protocol.response_length(prefix)


def test_a_request_without_an_answer_is_not_awaited():
    protocol = connected(METADATA=(0, 12))
    unanswered = protocol.request(MetadataRequest(), 9, is_answered=False)
    with pytest.raises(ProtocolError, match="nobody asked for"):
        protocol.oldest()
    answered = protocol.request(MetadataRequest(), 9)
    assert asked(answered)[2] == asked(unanswered)[2] + 1
    assert protocol.oldest().correlation_id == asked(answered)[2]


def test_requests_in_flight_are_bounded():
    protocol = connected(METADATA=(0, 12))
    for _ in range(MAX_IN_FLIGHT):
        protocol.request(MetadataRequest(), 9)
    with pytest.raises(InvariantError, match="in flight"):
        protocol.request(MetadataRequest(), 9)
