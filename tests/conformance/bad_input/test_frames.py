"""Section "Frame and header" of the table of bad input."""

from __future__ import annotations

import struct

import pytest

from moldau.wire.protocol.messages.groups_classic import HeartbeatRequest
from moldau.wire.protocol.messages.metadata import MetadataRequest
from tests.support.wire import RawConnection, request_bytes

METADATA = 3
API_VERSIONS = 18


def header(key: int, version: int, client_id: bytes | None = b"raw", flexible: bool = False) -> bytes:
    size = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", key, version, 7, size) + (client_id or b"") + (b"\0" if flexible else b"")


OF_CONTROLLERS = (52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82)
"""Only nodes send these, and only controllers answer."""


@pytest.mark.parametrize("key", OF_CONTROLLERS)
def test_a_key_that_is_not_served_here_closes(raw: RawConnection, key: int) -> None:
    raw.send_frame(header(key, 0) + bytes(16))
    raw.assert_closed()


@pytest.mark.parametrize("version", [6, 99])
def test_api_versions_of_an_unknown_version_gets_the_oldest_answer(raw: RawConnection, version: int) -> None:
    raw.send_frame(header(API_VERSIONS, version, flexible=True) + b"\2a\2b\0")
    answer = raw.receive_frame()
    assert struct.unpack(">ihihhh", answer) == (7, 35, 1, 18, 0, 5)
    raw.assert_alive()


@pytest.mark.parametrize("client_id", [None, b"", b"\xff\xfe", b"line\nbreak\0../", b"x" * 30_000])
def test_any_client_id_is_accepted(raw: RawConnection, client_id: bytes | None) -> None:
    raw.send_frame(header(METADATA, 1, client_id) + struct.pack(">i", 0))
    assert raw.receive_frame()[:4] == struct.pack(">i", 7)
    raw.assert_alive()


def test_a_client_id_of_length_minus_two_is_null(raw: RawConnection) -> None:
    raw.send_frame(struct.pack(">hhihi", METADATA, 1, 7, -2, 0))
    assert raw.receive_frame()[:4] == struct.pack(">i", 7)


def test_a_negative_correlation_id_is_given_back(raw: RawConnection) -> None:
    raw.send_frame(struct.pack(">hhihi", METADATA, 1, -5, -1, 0))
    assert raw.receive_frame()[:4] == struct.pack(">i", -5)


def test_three_requests_in_one_segment_are_answered_in_order(raw: RawConnection) -> None:
    requests = [request_bytes(MetadataRequest(topics=()), 1, correlation_id=number) for number in (1, 2, 3)]
    raw.send(b"".join(struct.pack(">i", len(request)) + request for request in requests))
    assert [struct.unpack_from(">i", raw.receive_frame())[0] for _ in range(3)] == [1, 2, 3]


def test_a_frame_may_come_byte_by_byte(raw: RawConnection) -> None:
    request = request_bytes(MetadataRequest(topics=()), 1)
    for byte in struct.pack(">i", len(request)) + request:
        raw.send(bytes([byte]))
    assert raw.receive_frame()[:4] == struct.pack(">i", 1)


def test_bytes_after_the_body_are_ignored(raw: RawConnection) -> None:
    raw.send_frame(request_bytes(MetadataRequest(topics=()), 1) + b"after the end")
    raw.receive_frame()
    raw.assert_alive()


@pytest.mark.parametrize("count", [1, 1000])
def test_unknown_tagged_fields_are_ignored(raw: RawConnection, count: int) -> None:
    # Repeated and out of order as well: tag 100 with one byte, over and over.
    body = request_bytes(MetadataRequest(topics=()), 9)[:-1]
    raw.send_frame(body + varint(count) + (varint(100) + b"\1x") * count)
    raw.receive_frame()
    raw.assert_alive()


def test_too_many_tagged_fields_close(raw: RawConnection) -> None:
    count = 20_000
    body = request_bytes(MetadataRequest(topics=()), 9)[:-1]
    raw.send_frame(body + varint(count) + (varint(100) + b"\1x") * count)
    raw.assert_closed()


def test_too_many_array_elements_close(raw: RawConnection) -> None:
    count = 1_000_001
    raw.send_frame(header(METADATA, 1) + struct.pack(">i", count) + b"\0\1a" * count)
    raw.assert_closed()


def test_a_huge_tag_count_closes(raw: RawConnection) -> None:
    raw.send_frame(request_bytes(MetadataRequest(topics=()), 9)[:-1] + varint(2**31 - 1))
    raw.assert_closed()


def test_a_string_over_32767_bytes_closes(raw: RawConnection) -> None:
    raw.send_frame(header(METADATA, 9, flexible=True) + varint(2) + varint(40_001) + b"a" * 40_000 + b"\0\1\0\0\0")
    raw.assert_closed()


def test_invalid_utf8_in_a_name_is_replaced_then_judged(raw: RawConnection) -> None:
    raw.send_frame(header(METADATA, 4) + struct.pack(">ih", 1, 3) + b"a\xff\xfeb"[:3] + b"\0")
    answer = raw.receive_frame()
    assert struct.pack(">h", 17) in answer


@pytest.mark.parametrize("group", ["new\nline", "nul\0byte", "../../etc", "x" * 30_000])
def test_any_group_id_is_accepted_and_goes_nowhere(raw: RawConnection, group: str) -> None:
    request = HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody")
    assert raw.ask(request, 3).error_code == 25
    raw.assert_alive()


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])
