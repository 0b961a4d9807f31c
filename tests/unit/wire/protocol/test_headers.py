"""Headers, frames and the table of APIs."""

from __future__ import annotations

import pytest
from kafka.protocol.api_header import RequestHeader as TheirRequestHeader

from moldau.errors import ProtocolError
from moldau.wire.protocol.api_keys import (
    API_VERSIONS,
    NEVER,
    ApiKey,
    is_unknown_api_versions,
    request_header_version,
    response_header_version,
)
from moldau.wire.protocol.framing import MAX_FRAME_BYTES, decode_frame_length, frame
from moldau.wire.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)
from moldau.wire.protocol.schema import NO_VERSIONS, message_info

# Apache Kafka 4.3.1's answer on a broker listener, for the APIs served here: (key, min, max)
ADVERTISED_BY_KAFKA = [
    (0, 0, 13), (1, 4, 18), (2, 1, 11), (3, 0, 13), (8, 2, 10), (9, 1, 10), (10, 0, 6), (11, 0, 9), (12, 0, 4),
    (13, 0, 5), (14, 0, 5), (15, 0, 6), (16, 0, 5), (17, 0, 1), (18, 0, 5), (19, 2, 7), (20, 1, 6), (21, 0, 2),
    (22, 0, 5), (23, 2, 4), (24, 0, 5), (25, 0, 4), (26, 0, 5), (27, 1, 2), (28, 0, 6), (29, 1, 3), (30, 1, 3),
    (31, 1, 3), (32, 1, 4), (33, 0, 2), (34, 1, 2), (35, 1, 5), (36, 0, 2), (37, 0, 3), (38, 1, 3), (39, 1, 2),
    (40, 1, 2), (41, 1, 3), (42, 0, 3), (43, 0, 2),
    (44, 0, 1), (45, 0, 1), (46, 0, 0), (47, 0, 0), (48, 0, 1), (49, 0, 1), (50, 0, 0), (51, 0, 0), (55, 0, 2),
    (57, 0, 2), (60, 0, 2), (61, 0, 0), (64, 0, 0), (65, 0, 0), (66, 0, 2), (68, 0, 1), (69, 0, 1), (74, 0, 1),
    (75, 0, 0), (80, 0, 1), (81, 0, 0), (94, 0, 0),
]  # fmt: skip


def test_the_served_versions_are_those_of_kafka_in_the_order_of_keys():
    assert [
        (int(key), row.advertised_min_version, row.max_version) for key, row in API_VERSIONS.items()
    ] == ADVERTISED_BY_KAFKA


@pytest.mark.parametrize("key", API_VERSIONS, ids=lambda key: key.name)
def test_the_table_agrees_with_the_declarations(key):
    row = API_VERSIONS[key]
    for cls in (row.request, row.response):
        info = message_info(cls)
        assert row.flexible_from == (NEVER if info.flexible == NO_VERSIONS else info.flexible.first)
        assert row.min_version in info.versions
        assert row.max_version in info.versions
    if row.flexible_from > 0:
        assert response_header_version(key, 0) == 0
        assert request_header_version(key, row.flexible_from - 1) == 1
    assert request_header_version(key, row.flexible_from) == 2
    assert response_header_version(key, row.flexible_from) == (0 if key == ApiKey.API_VERSIONS else 1)


@pytest.mark.parametrize("client_id", [None, "", "client", "é" * 70])
@pytest.mark.parametrize(("key", "version"), [(0, 3), (0, 9), (3, 13), (18, 2), (18, 4)])
def test_a_request_header_is_that_of_kafka_python_and_comes_back(client_id, key, version):
    header = RequestHeader(key, version, -5, client_id)
    encoded = encode_request_header(header)
    theirs = TheirRequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=-5, client_id=client_id
    )
    assert encoded == theirs.encode(flexible=request_header_version(key, version) == 2)
    for buffer in (encoded, bytearray(encoded), memoryview(encoded + b"body")):
        assert decode_request_header(buffer) == (header, len(encoded))


def test_a_client_id_of_length_minus_two_is_null_and_invalid_utf8_is_replaced():
    start = b"\x00\x03\x00\x01\x00\x00\x00\x07"
    assert decode_request_header(start + b"\xff\xfe") == (RequestHeader(3, 1, 7, None), 10)
    assert decode_request_header(start + b"\x00\x02\xffa") == (RequestHeader(3, 1, 7, "\ufffda"), 12)


def test_tagged_fields_of_a_request_header_are_read_over():
    tags = b"\x02\x05\x01a\x06\x00"
    header, position = decode_request_header(b"\x00\x03\x00\x0c\x00\x00\x00\x07\x00\x01c" + tags + b"body")
    assert header.client_id == "c"
    assert position == 11 + len(tags)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"",
        b"\x00\x03\x00\x0c\x00\x00\x00\x07\x00",
        b"\x00\x03\x00\x0c\x00\x00\x00\x07\x00\x05abc",  # client id longer than the frame
        b"\x00\x03\x00\x0c\x00\x00\x00\x07\x00\x01c",  # no tagged fields in a flexible header
        b"\x00\x03\x00\x0c\x00\x00\x00\x07\x00\x01c\x01\x00\x09",  # tagged field longer than the frame
        b"\x00\x03\x00\x0c\x00\x00\x00\x07\x00\x01c\xff\xff\xff\xff\xff\x01",  # varint over five bytes
        b"\x00\x03\x00\x0c\x00\x00\x00\x07\x00\x01c\x91\x4e",  # 10,001 tagged fields
        b"\x03\xe7\x00\x00\x00\x00\x00\x07\xff\xff",  # key 999
        b"\xff\xff\x00\x00\x00\x00\x00\x07\xff\xff",  # key -1
        b"\x00\x04\x00\x00\x00\x00\x00\x07\xff\xff",  # LeaderAndIsr, gone since 4.0
    ],
)
def test_what_is_no_request_header_is_a_protocol_error(request_bytes):
    with pytest.raises(ProtocolError):
        decode_request_header(request_bytes)


@pytest.mark.parametrize("version", [6, 99, -1, 32_767])
def test_api_versions_of_an_unknown_version_is_recognised(version):
    header, _ = decode_request_header(ApiKey.API_VERSIONS.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True)
                                      + b"\x00\x00\x00\x07\x00\x01c")  # fmt: skip
    assert is_unknown_api_versions(header.api_key, header.api_version)


def test_api_versions_of_a_known_version_is_not_unknown():
    assert not any(is_unknown_api_versions(18, version) for version in range(6))
    assert not is_unknown_api_versions(3, 99)


def test_response_headers_come_back():
    for version in (0, 1):
        encoded = encode_response_header(-9, version)
        assert decode_response_header(encoded + b"x", version) == (-9, 4 + version)
        for size in range(len(encoded)):
            with pytest.raises(ProtocolError):
                decode_response_header(encoded[:size], version)
    assert decode_response_header(b"\x00\x00\x00\x01\x01\x00\x01z", 1) == (1, 8)


def test_a_frame_begins_with_its_length():
    assert frame(b"ab", memoryview(b"cde")) == b"\x00\x00\x00\x05abcde"
    assert decode_frame_length(b"..\x00\x00\x00\x05", 2) == 5
    assert decode_frame_length(MAX_FRAME_BYTES.to_bytes(4, "big")) == MAX_FRAME_BYTES


@pytest.mark.parametrize("start", [b"", b"\x00\x00\x00", b"\xff\xff\xff\xff", b"\x16\x03\x01\x00", b"GET "])
def test_lengths_that_no_frame_has_are_protocol_errors(start):
    with pytest.raises(ProtocolError):
        decode_frame_length(start)
