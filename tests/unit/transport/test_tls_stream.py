"""TLS of a blocking client over real sockets: bytes pass unchanged, and a failure names its remedy."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.errors import KafkaError
from moldau.transport.security import secured
from moldau.transport.tcp import TCP, TcpDialer, TcpStream
from moldau.transport.tls import load_material, server_context
from moldau.transport.tls_stream import PIECE_BYTES, TlsDialer, TlsRefusedError, TlsStream
from tests.support.certificates import Authority, Issued, authority
from tests.support.tls_settings import identity, settings_of, trust

TIMEOUT_MS = 20_000
LONG = bytes(range(256)) * 4 * (PIECE_BYTES // 256) + b"the rest"
Serve = Callable[[socket.socket], None]


@contextmanager
def listening(serve: Serve) -> Iterator[int]:
    """A port at which `serve` gets the first connection, in a thread; the connection ends with it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_MS / 1_000)

        def run() -> None:
            accepted, _ = server.accept()
            with accepted, suppress(OSError):
                accepted.settimeout(TIMEOUT_MS / 1_000)
                serve(accepted)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            thread.join(TIMEOUT_MS / 1_000)


def echo(context: ssl.SSLContext, *, says_goodbye: bool = True) -> Serve:
    """Sends all received bytes back."""

    def serve(accepted: socket.socket) -> None:
        with context.wrap_socket(accepted, server_side=True) as secured_socket:
            while data := secured_socket.recv(1 << 16):
                secured_socket.sendall(data)
            if says_goodbye:
                secured_socket.unwrap()

    return serve


def of_server(issued: Issued | None = None, **texts: str) -> ssl.SSLContext:
    settings = settings_of(**identity(issued or authority().issue("CN=server")), **texts)
    return server_context(settings, load_material(settings))


def dialer(**texts: str) -> TlsDialer:
    """`truststore_type` is `ssl.truststore.type`."""
    said = {f"ssl.{name.replace('_', '.')}": text for name, text in {**trust(authority()), **texts}.items()}
    access = ClusterAccess.from_properties({"bootstrap.servers": "a", "security.protocol": "SSL", **said})
    found = secured(access, TCP)
    assert isinstance(found, TlsDialer)
    return found


def received(stream: TlsStream, count: int) -> bytes:
    """Exactly that many bytes, large ones into our own memory."""
    found = bytearray(count)
    filled = 0
    while filled < count:
        more = stream.receive_into(memoryview(found)[filled:], TIMEOUT_MS)
        assert more
        filled += more
    return bytes(found)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_what_is_sent_comes_back(version: str) -> None:
    with listening(echo(of_server())) as port:
        stream = dialer(enabled_protocols=version).dial("127.0.0.1", port, TIMEOUT_MS)
        stream.send(b"short", TIMEOUT_MS)
        assert stream.receive(1_000, TIMEOUT_MS) == b"short"
        assert not stream.has_ended()
        # more than the buffers of both kernels together hold would block: sent in parts that fit
        for start in range(0, len(LONG), PIECE_BYTES):
            piece = LONG[start : start + PIECE_BYTES]
            stream.send(memoryview(piece), TIMEOUT_MS)
            assert received(stream, len(piece)) == piece
        stream.send(b"ab", TIMEOUT_MS)
        assert received(stream, 1) == b"a"
        assert stream.has_ended()  # an unexpected byte has arrived
        assert received(stream, 1) == b"b"
        stream.close()


def answer_and_leave(context: ssl.SSLContext) -> Serve:
    def serve(accepted: socket.socket) -> None:
        with context.wrap_socket(accepted, server_side=True) as secured_socket:
            secured_socket.sendall(b"bye")

    return serve


def test_the_end_of_a_connection_is_seen_with_a_goodbye_and_without() -> None:
    with listening(answer_and_leave(of_server())) as port:
        stream = dialer().dial("127.0.0.1", port, TIMEOUT_MS)
        assert received(stream, 3) == b"bye"
        assert stream.receive(10, TIMEOUT_MS) == b""
        assert stream.has_ended()
        stream.close()


def asked(port: int, host: str, texts: dict[str, str]) -> bytes:
    """The response to a byte."""
    stream = dialer(**texts).dial(host, port, TIMEOUT_MS)
    try:
        stream.send(b"x", TIMEOUT_MS)
        return stream.receive(1, TIMEOUT_MS)
    finally:
        stream.close()


def refusal(context: ssl.SSLContext, host: str = "127.0.0.1", **texts: str) -> str:
    """The reason why a connection fails or is useless. The error is not retriable."""
    with listening(echo(context)) as port, pytest.raises(TlsRefusedError) as refused:
        asked(port, host, texts)
    assert not refused.value.is_retriable
    assert str(refused.value).startswith(f"TLS with {host}:{port} failed: ")
    return str(refused.value)


def test_a_certificate_that_has_expired_is_named() -> None:
    assert "has expired" in refusal(of_server(authority().issue("CN=old", days=-1)))


def test_a_certificate_of_another_host_is_named_and_may_be_allowed() -> None:
    context = of_server(authority().issue("CN=x", hosts=("elsewhere.example.org",)))
    assert "its certificate is not one of 127.0.0.1" in refusal(context)
    with listening(echo(context)) as port:
        assert asked(port, "127.0.0.1", {"endpoint_identification_algorithm": ""}) == b"x"


def test_an_authority_that_is_not_trusted_is_named() -> None:
    other = of_server(Authority("CN=other").issue("CN=server"))
    assert "ssl.truststore.location" in refusal(other)


def test_a_server_that_asks_for_a_certificate_is_named_after_the_handshake() -> None:
    mutual = {"client_auth": "required", **trust(authority())}
    assert "asks for a certificate, and we gave none" in refusal(of_server(**mutual))
    own = identity(authority().issue("CN=alice"))
    with listening(echo(of_server(**mutual))) as port:
        assert asked(port, "127.0.0.1", own) == b"x"


def test_versions_and_suites_that_differ_are_named() -> None:
    assert "version of TLS" in refusal(of_server(enabled_protocols="TLSv1.2"), enabled_protocols="TLSv1.3")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP server"),
        (b"SSH-2.0-x\r\n", "SSH"),
        (b"\0\0\0\x10 no TLS at all", "does not speak TLS"),
    ],
)
def test_a_server_of_another_protocol_is_named(answer: bytes, told: str) -> None:
    def serve(accepted: socket.socket) -> None:
        accepted.recv(1 << 16)
        accepted.sendall(answer)
        accepted.recv(1 << 16)

    with listening(serve) as port, pytest.raises(TlsRefusedError, match=told):
        dialer().dial("127.0.0.1", port, TIMEOUT_MS)


def test_a_server_that_leaves_during_the_handshake_may_be_tried_again() -> None:
    def serve(accepted: socket.socket) -> None:
        accepted.recv(1 << 16)

    with listening(serve) as port, pytest.raises(KafkaError, match="may be one without TLS") as lost:
        dialer().dial("127.0.0.1", port, TIMEOUT_MS)
    assert lost.value.is_retriable


@pytest.mark.parametrize("part", [b"", b"\x16\x03\x03\x00\x7a\x02\x00"])
def test_half_a_handshake_takes_no_longer_than_it_may(part: bytes) -> None:
    is_over = threading.Event()

    def serve(accepted: socket.socket) -> None:
        accepted.recv(1 << 16)
        accepted.sendall(part)
        is_over.wait(TIMEOUT_MS / 1_000)

    with listening(serve) as port:
        try:
            with pytest.raises(KafkaError, match="no end of the TLS handshake within 50 ms") as late:
                dialer().dial("127.0.0.1", port, 50)
        finally:
            is_over.set()
    assert late.value.is_retriable
    assert isinstance(late.value.__cause__, TimeoutError)


def test_an_answer_that_does_not_come_is_a_timeout() -> None:
    with listening(echo(of_server())) as port:
        stream = dialer().dial("127.0.0.1", port, TIMEOUT_MS)
        with pytest.raises(TimeoutError):
            stream.receive(1, 20)
        stream.close()


class _Everywhere(TcpDialer):
    """Resolves every name to this machine."""

    __slots__ = ("_port",)

    def __init__(self, port: int) -> None:
        self._port = port

    def dial(self, host: str, port: int, timeout_ms: int) -> TcpStream:
        return super().dial("127.0.0.1", self._port, timeout_ms)


def test_a_host_that_cannot_be_a_name_is_refused() -> None:
    with listening(echo(of_server())) as port, pytest.raises(TlsRefusedError, match="cannot be the name"):
        # the dialer below still reaches it
        TlsDialer(_Everywhere(port), ssl.create_default_context()).dial(".", 1, TIMEOUT_MS)


def test_stores_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    jks = tmp_path / "trust.jks"
    jks.write_bytes(b"\xfe\xed\xfe\xed and more")
    with pytest.raises(KafkaError, match="keytool -importkeystore"):
        dialer(truststore_type="JKS", truststore_certificates="", truststore_location=str(jks))
    with pytest.raises(KafkaError, match=r"cannot read .*nothing: No such file"):
        dialer(truststore_certificates="", truststore_location=str(tmp_path / "nothing"))
    with pytest.raises(KafkaError, match=r"ssl\.endpoint\.identification\.algorithm"):
        dialer(endpoint_identification_algorithm="ldaps")
    with pytest.raises(KafkaError, match=r"ssl\.enabled\.protocols"):
        dialer(enabled_protocols="TLSv1.1")
