"""Strangers on a TLS listener: garbage, plain text, half a handshake. Real TLS in memory, in virtual time."""

from __future__ import annotations

import asyncio
import gc
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.core.auditing.repeated import CLIENT_LINES, WINDOW_MS
from moldau.shell.network.server_connection import ServerConnection
from moldau.telemetry import BOUND_REACHED
from moldau.transport.tls_transport import BUFFER_BYTES, HANDSHAKES_PER_TURN, HandshakeTurns, TlsTransport
from moldau.wire.protocol.framing import frame
from tests.support.certificates import authority
from tests.support.tls_settings import settings_in
from tests.unit.shell.conftest import NodeUnderTest, StartNode, Wire

InVirtualTime = Callable[[Callable[[StartNode], Awaitable[None]]], None]
Tell = Callable[[NodeUnderTest], Awaitable[None]]
TIMEOUT = "moldau.handshake.timeout.ms"
TIMEOUT_S = 10
API_VERSIONS = frame(b"\0\x12\0\0\0\0\0\7\xff\xff")
STRANGERS = 1_000


class TlsWire(Wire):
    """The transport below the node's TLS."""

    def can_write_eof(self) -> bool:
        return False


class TlsClient:
    """A client with Python's own TLS, in memory."""

    def __init__(self, node: NodeUnderTest, turns: HandshakeTurns | None = None) -> None:
        factory = node.network.factory
        assert factory is not None
        context = node.node._tls.server("SSL").context
        turns = turns or HandshakeTurns(asyncio.get_running_loop())
        self.wire: Any = TlsWire()
        self.below = TlsTransport(factory(), context, bytearray(BUFFER_BYTES), turns=turns)
        self.wire.protocol = self.below
        self.below.connection_made(self.wire)
        self._to_server, self._from_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
        self._tls = asking.wrap_bio(self._from_server, self._to_server)
        self._read = 0

    def feed(self, data: bytes) -> None:
        """As the kernel would, until the node reads no more."""
        for start in range(0, len(data), BUFFER_BYTES):
            if self.wire.is_closed or self.wire.is_read_paused:
                return
            piece = data[start : start + BUFFER_BYTES]
            self.below.get_buffer(-1)[: len(piece)] = piece
            self.below.buffer_updated(len(piece))

    def hello(self) -> bytes:
        """The first message of the handshake."""
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.do_handshake()
        return self._to_server.read()

    async def is_served(self) -> bool:
        """Completes the handshake and requests the versions; False if the connection has ended meanwhile."""
        self.feed(self.hello())
        for _ in range(10):
            await asyncio.sleep(0)
            self._from_server.write(bytes(self.wire.sent[self._read :]))
            self._read = len(self.wire.sent)
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.feed(self._to_server.read())
        self._tls.write(API_VERSIONS)
        self.feed(self._to_server.read())
        await asyncio.sleep(0)
        self._from_server.write(bytes(self.wire.sent[self._read :]))
        try:
            return self._tls.read(8)[4:] == b"\0\0\0\7"
        except ssl.SSLError:
            return False


def story(run: InVirtualTime, path: Path, tell: Tell, **settings: str) -> list[dict[str, Any]]:
    """The lines of the audit log."""

    async def start(start_node: StartNode) -> None:
        more = {name.replace("_", "."): text for name, text in settings.items()}
        texts = {**settings_in(path), "moldau.audit.file": str(path / "audit"), TIMEOUT: str(TIMEOUT_S * 1_000), **more}
        node = await start_node(texts)
        await tell(node)
        await node.node.stop()

    run(start)
    return [json.loads(line) for line in (path / "audit").read_text().splitlines()]


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "this is an HTTP client in plain text; the port speaks TLS"),
        (API_VERSIONS, "this is plain text, perhaps of a Kafka client"),
        (b"\x15\x03\x01\x00\x02\x02\x28", "this is a TLS alert, and no handshake came before it"),
        (b"\x16\x03\x01\x00\x05hello", "unexpected message"),
        (b"\x16\x00\x00\x00\x05hello", "the other side does not speak TLS"),
        (b"\x16\x03\x01\xff\xff" + bytes(0xFFFF), "length"),
        (b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(0x4000 - 4), "excessive message size"),
        (b"\x16\x03\x01\x00\x04\x01\x00\x00\x00", "length"),
        (b"\x16\x03\x01\x00\x01\x01\x17\x03\x03\x00\x05hello", ""),
        (b"\xff" * 1_000, "this is plain text"),
    ],
)
def test_garbage_ends_its_connection_and_is_written_down_once(
    in_virtual_time: InVirtualTime, tmp_path: Path, sent: bytes, told: str
) -> None:
    async def tell(node: NodeUnderTest) -> None:
        stranger, other = TlsClient(node), TlsClient(node)
        stranger.feed(sent)
        await node.turns(3)
        assert stranger.wire.is_closed
        assert stranger.wire.sent[:2] in (b"\x15\x03", b"")  # an alert, or nothing
        assert await other.is_served()

    (line,) = story(in_virtual_time, tmp_path, tell)
    del line["time"]
    detail = line.pop("detail")
    assert line == {"node": 1, "event": "tls", "address": "10.0.0.7", "listener": "SSL", "result": "denied"}
    assert told in detail
    assert detail.isprintable()


def test_a_certificate_that_names_no_principal_is_written_down(in_virtual_time: InVirtualTime, tmp_path: Path) -> None:
    async def tell(node: NodeUnderTest) -> None:
        client = node.connect()
        client.connection.secured(authority().issue("CN=mallory").der)
        await node.turns(3)
        assert client.wire.is_closed

    (line,) = story(in_virtual_time, tmp_path, tell, ssl_principal_mapping_rules="RULE:CN=nobody/nobody/")
    assert (line["event"], line["listener"], line["result"]) == ("tls", "SSL", "denied")
    assert line["detail"] == "no rule of ssl.principal.mapping.rules gives a principal for its certificate"


def test_a_client_that_breaks_its_tls_later_ends_alone(in_virtual_time: InVirtualTime, tmp_path: Path) -> None:
    async def tell(node: NodeUnderTest) -> None:
        client, other = TlsClient(node), TlsClient(node)
        assert await client.is_served()
        client.feed(b"\x17\x03\x03\x00\x20" + bytes(32))
        await node.turns(3)
        assert client.wire.is_closed
        assert await other.is_served()

    assert story(in_virtual_time, tmp_path, tell) == []


def test_half_handshakes_hold_their_places_no_longer_than_they_may(
    in_virtual_time: InVirtualTime, tmp_path: Path
) -> None:
    async def tell(node: NodeUnderTest) -> None:
        turns = HandshakeTurns(asyncio.get_running_loop())
        halves = [TlsClient(node, turns) for _ in range(STRANGERS)]
        half = halves[0].hello()[:100]
        for number, each in enumerate(halves):
            each.feed(half if number % 2 else b"")
        await asyncio.sleep(TIMEOUT_S - 1)
        client = TlsClient(node)
        assert client.wire.is_read_paused  # it waits for a place
        assert not any(each.wire.is_closed for each in halves)
        await asyncio.sleep(3)
        assert all(each.wire.is_closed for each in halves)
        assert not client.wire.is_read_paused
        assert await client.is_served()
        assert node.node.telemetry.value(BOUND_REACHED, TIMEOUT) == STRANGERS
        await asyncio.sleep(2 * WINDOW_MS / 1_000)

    lines = story(in_virtual_time, tmp_path, tell, max_connections=str(STRANGERS))
    *first, last = lines
    late = f"the TLS handshake was not done in {TIMEOUT_S * 1_000} ms"
    assert [(line["event"], line["detail"]) for line in first] == [("tls", late)] * CLIENT_LINES
    assert (last["event"], last["left_out"]) == ("left out", STRANGERS - CLIENT_LINES)


def test_a_client_that_waits_for_its_turn_is_read_no_further_than_a_bound(
    in_virtual_time: InVirtualTime, tmp_path: Path
) -> None:
    async def tell(node: NodeUnderTest) -> None:
        turns = HandshakeTurns(asyncio.get_running_loop())
        clients = [TlsClient(node, turns) for _ in range(HANDSHAKES_PER_TURN + 1)]
        hello = clients[0].hello()
        for client in clients:
            client.feed(hello[:10])
        *_, last = clients
        for _ in range(2):
            last.feed(bytes(BUFFER_BYTES))
        assert last.wire.is_read_paused
        await node.turns(3)
        assert last.wire.is_closed

    story(in_virtual_time, tmp_path, tell)


async def visit(node: NodeUnderTest, how: str) -> None:
    """A client that connects, and is gone at the end."""
    client = TlsClient(node)
    if how == "half":
        client.feed(client.hello()[:100])
        await asyncio.sleep(TIMEOUT_S + 2)
    elif how == "garbage":
        client.feed(b"\x16\x03\x01\x00\x05hello")
    else:
        assert await client.is_served()
        if how == "broken later":
            client.feed(b"\x17\x03\x03\x00\x20" + bytes(32))
        else:
            client.wire.close()
    await asyncio.sleep(1)
    assert client.wire.is_closed
    client.wire.protocol = None  # like a transport of a loop


def held() -> list[object]:
    return [each for each in gc.get_objects() if isinstance(each, TlsTransport | ServerConnection)]


@pytest.mark.parametrize(
    "how", ["served", *(pytest.param(how, marks=pytest.mark.slow) for how in ("half", "garbage", "broken later"))]
)
def test_a_connection_that_has_ended_is_freed_without_the_collector(
    in_virtual_time: InVirtualTime, tmp_path: Path, how: str
) -> None:
    """A reference cycle keeps the TLS of a connection, 60 KiB; one that `gc.freeze` has frozen stays for ever."""

    async def tell(node: NodeUnderTest) -> None:
        gc.collect()
        others = held()  # of earlier tests
        gc.disable()
        try:
            await visit(node, how)
            await asyncio.sleep(1)
            assert [type(each) for each in held() if not any(each is other for other in others)] == []
        finally:
            gc.enable()

    story(in_virtual_time, tmp_path, tell)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_tls_on_a_port_of_plain_text_is_named(
    in_virtual_time: InVirtualTime, caplog: pytest.LogCaptureFixture, protocol: str
) -> None:
    async def tell(start_node: StartNode) -> None:
        settings = {
            "listeners": "CLIENTS://10.0.0.1:9092",
            "listener.security.protocol.map": f"CLIENTS:{protocol}",
            "inter.broker.listener.name": "CLIENTS",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        }
        node = await start_node(settings)
        client = node.connect()
        client.feed(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32))
        assert client.wire.is_closed
        assert not client.wire.sent

    with caplog.at_level("INFO", "moldau"):
        in_virtual_time(tell)
    assert "this is TLS, not Kafka's protocol in plain text" in caplog.text
