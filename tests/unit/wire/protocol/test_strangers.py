"""Other protocols are recognized by their first four bytes."""

from __future__ import annotations

import pytest

from moldau.errors import ProtocolError
from moldau.wire.protocol.framing import decode_frame_length, stranger


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"GET / HTTP/1.1", "this is an HTTP client, not Kafka's protocol"),
        (b"POST /topics", "this is an HTTP client, not Kafka's protocol"),
        (b"PRI * HTTP/2.0", "this is an HTTP client, not Kafka's protocol"),
        (b"HTTP/1.1 400 Bad Request", "this is an HTTP server, not Kafka's protocol"),
        (b"\x16\x03\x01\x02\x00", "this is TLS, not Kafka's protocol in plain text"),
        (b"\x15\x03\x03\x00\x02", "this is TLS, not Kafka's protocol in plain text"),
        (b"SSH-2.0", "this is SSH, not Kafka's protocol"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes, at most 104857600"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes, at most 104857600"),
    ],
)
def test_who_speaks_another_protocol_is_named(sent: bytes, told: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        decode_frame_length(sent)
    assert str(raised.value) == told


@pytest.mark.parametrize("length", [0, 1, 1_000_000, 104_857_600])
def test_no_length_that_a_broker_takes_is_a_stranger(length: int) -> None:
    assert stranger(length.to_bytes(4, "big")) is None
