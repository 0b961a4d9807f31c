"""TLS over real sockets, on both loops: bytes pass unchanged, and a failed handshake names its reason."""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from moldau.transport.network import Listener, TcpNetwork
from moldau.transport.tls import ClientTls, ServerTls, client_context, load_material, server_context
from moldau.transport.tls_transport import HANDSHAKES_PER_TURN, HandshakeError, HandshakeTurns
from tests.support.certificates import Authority, Issued, authority
from tests.support.tls_settings import identity, settings_of, trust

TIMEOUT_S = 20.0
LOOPS = [asyncio.SelectorEventLoop, uvloop.Loop]


def server(issued: Issued | None = None, **texts: str) -> ServerTls:
    settings = settings_of(**identity(issued or authority().issue("CN=server")), **texts)
    return ServerTls(server_context(settings, load_material(settings)))


def client(**texts: str) -> ClientTls:
    settings = settings_of(**{**trust(authority()), **texts})
    return ClientTls(client_context(settings, load_material(settings)))


class Echo(asyncio.BufferedProtocol):
    """Sends received bytes back; `buffer_bytes` at a time."""

    def __init__(self, buffer_bytes: int = 1 << 16) -> None:
        self.transport: Any = None
        self.certificate: bytes | None = None
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.is_secured = self.has_ended = False
        self.received = 0
        self._buffer = bytearray(buffer_bytes)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def secured(self, certificate: bytes | None) -> None:
        assert self.received == 0
        self.is_secured, self.certificate = True, certificate

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        assert self.is_secured
        self.received += nbytes
        self.transport.write(bytes(self._buffer[:nbytes]))
        self._buffer.append(0)  # BufferError if a view is left
        self._buffer.pop()

    def eof_received(self) -> None:
        self.has_ended = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


class Collector(asyncio.BufferedProtocol):
    """A client that keeps received bytes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.transport: Any = None
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._buffer = bytearray(5_000)
        self._wanted = 0
        self._came: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self._buffer[:nbytes]
        if self._came is not None and len(self.data) >= self._wanted and not self._came.done():
            self._came.set_result(None)

    def eof_received(self) -> None:
        """The end follows."""

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)

    async def until(self, count: int) -> bytes:
        """Waits until that many bytes have come."""
        self._wanted, self._came = count, asyncio.get_running_loop().create_future()
        if len(self.data) < count:
            await self._came
        return bytes(self.data)


class Served:
    """A listener that echoes, and the protocols of its connections."""

    def __init__(
        self, listener: Listener, echoes: list[Echo], network: TcpNetwork, accepted: asyncio.Future[None]
    ) -> None:
        self.listener, self.echoes, self.network = listener, echoes, network
        self.accepted = accepted
        """Done once the first connection has come."""

    async def connect(self, tls: ClientTls | None, host: str = "localhost") -> Collector:
        collector = Collector()
        await self.network.connect(host, self.listener.port, collector, tls)
        return collector


async def serve(tls: ServerTls, buffer_bytes: int = 1 << 16) -> Served:
    echoes: list[Echo] = []

    accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def accept() -> Echo:
        echoes.append(Echo(buffer_bytes))
        if not accepted.done():
            accepted.set_result(None)
        return echoes[-1]

    network = TcpNetwork()
    return Served(await network.listen("127.0.0.1", 0, accept, tls), echoes, network, accepted)


def run(loop_class: Any, body: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await body()

    with asyncio.Runner(loop_factory=loop_class) as runner:
        runner.run(bounded())


@pytest.mark.parametrize("loop_class", LOOPS)
@pytest.mark.parametrize("buffer_bytes", [1, 4_000, 1 << 20])
def test_all_bytes_come_back_in_order(loop_class: Any, buffer_bytes: int) -> None:
    async def body() -> None:
        served = await serve(server(), buffer_bytes)
        collector = await served.connect(client())
        sent = b"".join(index.to_bytes(4, "big") for index in range(1_000 if buffer_bytes == 1 else 100_000))
        for begin in range(0, len(sent), 70_000):
            collector.transport.write(sent[begin : begin + 70_000])
        assert await collector.until(len(sent)) == sent
        collector.transport.close()
        assert await served.echoes[0].lost is None
        assert served.echoes[0].has_ended
        served.listener.close()

    run(loop_class, body)


@pytest.mark.parametrize("loop_class", LOOPS)
def test_a_protocol_that_reads_no_more_gets_no_more(loop_class: Any) -> None:
    class Pausing(Echo):
        def buffer_updated(self, nbytes: int) -> None:
            super().buffer_updated(nbytes)
            self.transport.pause_reading()

    async def body() -> None:
        made: list[Pausing] = []

        def accept() -> Pausing:
            made.append(Pausing(10))
            return made[-1]

        network = TcpNetwork()
        listener = await network.listen("127.0.0.1", 0, accept, server())
        collector = Collector()
        await network.connect("localhost", listener.port, collector, client())
        collector.transport.write(bytes(range(100)))
        for count in range(10, 101, 10):
            assert await collector.until(count) == bytes(range(count))
            assert made[0].received == count
            made[0].transport.resume_reading()
        collector.transport.abort()
        listener.close()

    run(loop_class, body)


@pytest.mark.parametrize("loop_class", LOOPS)
def test_a_connection_that_is_held_when_it_is_accepted_shakes_no_hands(loop_class: Any) -> None:
    class Held(Echo):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.transport.pause_reading()

    async def body() -> None:
        accepted: asyncio.Future[Held] = asyncio.get_running_loop().create_future()

        def accept() -> Held:
            accepted.set_result(Held())
            return accepted.result()

        network = TcpNetwork()
        listener = await network.listen("127.0.0.1", 0, accept, server())
        collector = Collector()
        connecting = asyncio.ensure_future(network.connect("localhost", listener.port, collector, client()))
        held = await accepted
        done, _ = await asyncio.wait((connecting,), timeout=0.05)
        assert not done
        assert not held.is_secured
        held.transport.resume_reading()
        await connecting
        collector.transport.write(b"hello")
        assert await collector.until(5) == b"hello"
        collector.transport.abort()
        listener.close()

    run(loop_class, body)


@pytest.mark.parametrize("loop_class", LOOPS)
def test_the_certificate_of_a_client_is_verified_and_given(loop_class: Any) -> None:
    async def body() -> None:
        alice = authority().issue("CN=alice")
        served = await serve(server(None, **trust(authority()), client_auth="required"))
        collector = await served.connect(client(**identity(alice)))
        collector.transport.write(b"hello")
        await collector.until(5)
        assert served.echoes[0].certificate == alice.der
        served.listener.close()
        collector.transport.abort()

    run(loop_class, body)


FAILURES: list[tuple[str, dict[str, str], Callable[[], ClientTls], str, str]] = [
    (
        "a certificate that the client does not trust",
        {},
        lambda: client(**trust(Authority("CN=Another"))),
        "certificate of the other side is not accepted: unable to get local issuer certificate",
        "the other side does not know who signed our certificate",
    ),
    (
        "no certificate where one is required",
        {**trust(authority()), "client_auth": "required", "enabled_protocols": "TLSv1.2"},
        client,
        "the other side accepts none of the cipher suites, or asks for a certificate",
        "the other side gave no certificate, and one is required",
    ),
    (
        "no version in common",
        {"enabled_protocols": "TLSv1.2"},
        lambda: client(enabled_protocols="TLSv1.3"),
        "the other side enables no version of TLS that is known here",
        "the other side knows no version of TLS that is enabled here",
    ),
    (
        "no cipher suite in common",
        {"cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
        lambda: client(cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
        "the other side accepts none of the cipher suites, or asks for a certificate",
        "no cipher suite is enabled on both sides",
    ),
]


@pytest.mark.parametrize("loop_class", LOOPS)
@pytest.mark.parametrize(("at_server", "connecting", "by_client", "by_server"), [each[1:] for each in FAILURES])
def test_both_sides_are_told_why_a_handshake_failed(
    loop_class: Any, at_server: dict[str, str], connecting: Callable[[], ClientTls], by_client: str, by_server: str
) -> None:
    async def body() -> None:
        served = await serve(server(None, **at_server))
        with pytest.raises(HandshakeError, match=by_client):
            await served.connect(connecting())
        error = await served.echoes[0].lost
        assert isinstance(error, HandshakeError)
        assert str(error) == by_server
        assert not served.echoes[0].is_secured
        served.listener.close()

    run(loop_class, body)


@pytest.mark.parametrize("loop_class", LOOPS)
def test_the_name_in_the_certificate_must_be_the_host(loop_class: Any) -> None:
    async def body() -> None:
        served = await serve(server(authority().issue("CN=elsewhere", ("elsewhere.test",))))
        with pytest.raises(HandshakeError, match="Hostname mismatch, certificate is not valid for 'localhost'"):
            await served.connect(client())
        collector = await served.connect(client(endpoint_identification_algorithm=""))
        collector.transport.abort()
        with pytest.raises(HandshakeError, match="IP address mismatch"):
            await served.connect(client(), "127.0.0.1")
        served.listener.close()

    run(loop_class, body)


@pytest.mark.parametrize("loop_class", LOOPS)
@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "this is an HTTP client in plain text; the port speaks TLS"),
        (b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff", "this is plain text, perhaps of a Kafka client"),
        (b"\x16\x03\x01\x00\x05hello", ""),
    ],
)
def test_plain_text_and_garbage_are_answered_with_an_alert_and_told(loop_class: Any, sent: bytes, told: str) -> None:
    async def body() -> None:
        served = await serve(server())
        reader, writer = await asyncio.open_connection("127.0.0.1", served.listener.port)
        writer.write(sent)
        assert (await reader.read())[:2] == b"\x15\x03"
        writer.close()  # the server waits for that: its alert arrives
        error = await served.echoes[0].lost
        assert isinstance(error, HandshakeError)
        assert told in str(error)
        served.listener.close()

    run(loop_class, body)


@pytest.mark.parametrize("loop_class", LOOPS)
@pytest.mark.parametrize("is_begun", [False, True])
def test_a_client_that_leaves_in_its_handshake_is_told_of(loop_class: Any, is_begun: bool) -> None:
    async def body() -> None:
        served = await serve(server())
        _, writer = await asyncio.open_connection("127.0.0.1", served.listener.port)
        if is_begun:
            writer.write(b"\x16\x03\x01\x02\x00\x01")
        writer.close()
        await writer.wait_closed()
        await served.accepted
        assert str(await served.echoes[0].lost) == "the connection ended during the TLS handshake"
        served.listener.close()

    run(loop_class, body)


@pytest.mark.parametrize("loop_class", LOOPS)
def test_a_server_that_speaks_no_tls_is_told_apart(loop_class: Any) -> None:
    async def body() -> None:
        listening = await asyncio.start_server(lambda _, writer: writer.write(b"220 hello\r\n"), "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(HandshakeError, match="the other side does not speak TLS"):
            await TcpNetwork().connect("127.0.0.1", port, Collector(), client())
        listening.close()

    run(loop_class, body)


@pytest.mark.parametrize("loop_class", LOOPS)
def test_a_new_context_serves_new_connections_and_leaves_open_ones_alone(loop_class: Any) -> None:
    async def body() -> None:
        tls = server()
        served = await serve(tls)
        first = await served.connect(client())
        tls.use(server(Authority("CN=Next").issue("CN=server")).context)
        with pytest.raises(HandshakeError):
            await served.connect(client())
        first.transport.write(b"still here")
        assert await first.until(10) == b"still here"
        first.transport.abort()
        served.listener.close()

    run(loop_class, body)


@pytest.mark.parametrize("loop_class", LOOPS)
def test_many_clients_at_once_are_all_served(loop_class: Any) -> None:
    async def body() -> None:
        served = await serve(server())
        tls = client()
        collectors = await asyncio.gather(*(served.connect(tls) for _ in range(30)))
        for collector in collectors:
            collector.transport.write(b"hello")
        for collector in collectors:
            assert await collector.until(5) == b"hello"
            collector.transport.abort()
        served.listener.close()

    run(loop_class, body)


def test_few_handshakes_go_on_in_one_turn_of_the_loop() -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        turns, taken, seen = HandshakeTurns(loop), 0, []

        def step() -> None:
            nonlocal taken
            taken += 1

        for _ in range(3 * HANDSHAKES_PER_TURN - 1):
            turns.take(step)
        while taken < 3 * HANDSHAKES_PER_TURN - 1:
            seen.append(taken)
            await asyncio.sleep(0)
        assert seen == [HANDSHAKES_PER_TURN, 2 * HANDSHAKES_PER_TURN]
        await asyncio.sleep(0)
        turns.take(step)
        assert taken == 3 * HANDSHAKES_PER_TURN

    run(asyncio.SelectorEventLoop, body)


def test_openssl_is_spoken_to_as_by_any_client() -> None:
    async def body() -> None:
        served = await serve(server())
        context = ssl.create_default_context(cadata=authority().pem)

        def ask() -> bytes:
            with (
                socket.create_connection(("localhost", served.listener.port), timeout=TIMEOUT_S) as plain,
                context.wrap_socket(plain, server_hostname="localhost") as secured,
            ):
                secured.sendall(b"x" * 100_000)
                got = b""
                while len(got) < 100_000:
                    got += secured.recv(65_536)
                assert secured.version() == "TLSv1.3"
                return got

        assert await asyncio.to_thread(ask) == b"x" * 100_000
        assert await served.echoes[0].lost is None
        served.listener.close()

    run(uvloop.Loop, body)


@pytest.mark.parametrize("loop_class", LOOPS)
def test_an_alert_reaches_a_client_that_has_sent_its_first_request_already(loop_class: Any) -> None:
    """Closed with unread bytes, the connection would be reset, and a client that writes would see nothing else."""

    async def body() -> None:
        served = await serve(server(**trust(authority()), client_auth="required"))
        context = ssl.create_default_context(cadata=authority().pem)

        def ask() -> str:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
            with socket.create_connection(("127.0.0.1", served.listener.port), timeout=TIMEOUT_S) as plain:
                while True:
                    try:
                        tls.do_handshake()
                        break
                    except ssl.SSLWantReadError:
                        plain.sendall(outgoing.read())
                        incoming.write(plain.recv(65_536))
                tls.write(b"x" * 600_000)
                plain.sendall(outgoing.read())
                select.select([plain], [], [], TIMEOUT_S)  # the alert has arrived, and the client still writes
                for _ in range(3):
                    plain.sendall(b"x" * 100)
                while True:
                    try:
                        tls.read(1)
                    except ssl.SSLWantReadError:
                        got = plain.recv(65_536)
                        assert got, "the connection ended without an alert"
                        incoming.write(got)
                    except ssl.SSLError as error:
                        return str(error.reason)

        assert await asyncio.to_thread(ask) == "TLSV13_ALERT_CERTIFICATE_REQUIRED"
        assert isinstance(await served.echoes[0].lost, HandshakeError)
        served.listener.close()

    run(loop_class, body)
