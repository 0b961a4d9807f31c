"""A node on ports that the test holds: memory disk, a clock that the test moves, connections fed byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.ports import Disk, Workers
from moldau.shell.io.simulated.clock import ManualClock
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.io.simulated.workers import InlineWorkers
from moldau.shell.network.server_connection import ServerConnection
from moldau.shell.node.assemble import Node
from moldau.shell.node.ports import NodePorts
from moldau.simulation.loop import virtual_loop
from moldau.simulation.ports import SimulatedClock
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey, response_header_version
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.headers import RequestHeader, decode_response_header, encode_request_header
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


async def turns(count: int) -> None:
    """Lets the loop turn `count` times; no time passes."""
    loop = asyncio.get_running_loop()
    for _ in range(count):
        turned = loop.create_future()
        loop.call_soon(turned.set_result, None)
        await turned


class Wire(asyncio.Transport):
    """The transport of one connection: keeps the written bytes, and can simulate a peer that does not read."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.writes = 0
        self.is_read_paused = False
        self.is_closed = False
        self.is_stuck = False
        self.high_water = 1 << 20
        self.unsent = 0
        self.protocol: ServerConnection | None = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("10.0.0.7", 50_000), "sockname": ("10.0.0.1", 9092)}.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high_water = high or 0
        self._pause_if_full()

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def write(self, data: Any) -> None:
        self.writes += 1
        self.sent += data
        if self.is_stuck:
            self.unsent += len(data)
            self._pause_if_full()

    def _pause_if_full(self) -> None:
        if self.unsent > self.high_water and self.protocol is not None:
            self.protocol.pause_writing()

    def drain(self) -> None:
        """The peer reads everything."""
        self.is_stuck = False
        self.unsent = 0
        if self.protocol is not None:
            self.protocol.resume_writing()

    def pause_reading(self) -> None:
        self.is_read_paused = True

    def resume_reading(self) -> None:
        self.is_read_paused = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            if self.protocol is not None:
                asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()


class Client:
    """One connection, from the client's side. The codec encodes requests and decodes responses."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection
        self.wire = Wire()
        self.wire.protocol = connection
        self._asked: list[tuple[ApiKey, int]] = []
        self._read = 0
        connection.connection_made(self.wire)
        self.wire.is_read_paused = False  # like uvloop: reading begins after `connection_made`, in spite of its calls

    def feed(self, data: bytes) -> int:
        """Gives bytes as the kernel would, until the connection reads no more; gives their number.

        After each piece the receive buffer must be free of views, and is overwritten.
        """
        position = 0
        while position < len(data) and not self.wire.is_closed and not self.wire.is_read_paused:
            buffer = self.connection.get_buffer(65_536)
            piece = data[position : position + len(buffer)]
            with memoryview(buffer) as view:
                view[: len(piece)] = piece
            del buffer
            self.connection.buffer_updated(len(piece))
            position += len(piece)
            shared = self.connection.group.receive_buffer
            size = len(shared)
            shared.append(0)  # BufferError if a view is left
            del shared[size:]
            shared[:] = b"\xee" * size
        return min(position, len(data))

    def request(self, key: ApiKey, version: int, message: msgspec.Struct, client_id: str | None = "test") -> bytes:
        """The frame of one request; its response is due from now on."""
        self._asked.append((key, version))
        header = RequestHeader(int(key), version, len(self._asked), client_id)
        return frame(encode_request_header(header), encode_message(message, version))

    def send(self, key: ApiKey, version: int, message: msgspec.Struct) -> None:
        self.feed(self.request(key, version, message))

    def answers(self) -> list[Any]:
        """The responses that came since the last call, in order."""
        found: list[Any] = []
        while len(self.wire.sent) - self._read >= 4:
            length = int.from_bytes(self.wire.sent[self._read : self._read + 4], "big")
            if len(self.wire.sent) - self._read - 4 < length:
                break
            body = bytes(self.wire.sent[self._read + 4 : self._read + 4 + length])
            self._read += 4 + length
            correlation_id = int.from_bytes(body[:4], "big")
            key, version = self._asked[correlation_id - 1]
            _, position = decode_response_header(body, response_header_version(int(key), version))
            message, end = decode_message(API_VERSIONS[key].response, version, body, position)
            assert end == len(body)
            found.append(message)
        return found

    async def ask(self, key: ApiKey, version: int, message: msgspec.Struct) -> Any:
        """Sends, and waits (turns of the loop, no time) for the one response."""
        self.send(key, version, message)
        return await self.answer()

    async def answer(self) -> Any:
        (found,) = await self.next_answers(1)
        return found

    async def next_answers(self, count: int) -> list[Any]:
        """Waits (turns of the loop, no time) for that many responses; no more may come with them."""
        found: list[Any] = []
        for _ in range(500):
            found += self.answers()
            if len(found) >= count:
                assert len(found) == count
                return found
            await turns(1)
        raise AssertionError("no answer")


class FedListener:
    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def close(self) -> None:
        """Nothing to close."""


class FedNetwork:
    """The network port: the test makes connections."""

    def __init__(self) -> None:
        self.factory: Callable[[], asyncio.BaseProtocol] | None = None

    async def listen(
        self, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol], tls: object = None
    ) -> FedListener:
        self.factory = protocol_factory
        return FedListener(host, port or 9092)

    def client_tls(self, listener_name: str) -> None:
        """None: no listener has TLS."""

    def login_at(self, listener_name: str) -> None:
        """None: no listener asks for a login."""

    async def connect(
        self, host: str, port: int, protocol: asyncio.BaseProtocol, tls: object = None
    ) -> asyncio.Transport:
        raise ConnectionRefusedError(f"nobody listens on {host}:{port}")


class NodeUnderTest:
    """A running node, its ports, and its clients."""

    def __init__(self, node: Node, ports: NodePorts, network: FedNetwork, disk: MemoryDisk, clock: Any) -> None:
        self.node = node
        self.ports = ports
        self.network = network
        self.disk = disk
        self.clock = clock

    async def turns(self, count: int) -> None:
        """Lets the loop turn `count` times; no time passes."""
        await turns(count)

    async def answer_beside_others(self, key: ApiKey, version: int, request: Any) -> Any:
        """The response to `request`, which must take so long that another client is answered meanwhile."""
        client, other = self.connect(), self.connect()
        client.send(key, version, request)
        await self.turns(1)
        assert client.answers() == []
        other.send(ApiKey.METADATA, 9, MetadataRequest(topics=()))
        assert len(other.answers()) == 1
        return await client.answer()

    def connect(self) -> Client:
        assert self.network.factory is not None
        connection = self.network.factory()
        assert isinstance(connection, ServerConnection)
        return Client(connection)

    async def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        topic = CreatableTopic(
            name,
            num_partitions=partitions,
            replication_factor=1,
            configs=tuple(CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()),
        )
        response = await self.node.broker.submit(CreateTopicsRequest(topics=(topic,), timeout_ms=1_000))
        assert isinstance(response, CreateTopicsResponse)
        assert [result.error_code for result in response.topics] == [0], response


StartNode = Callable[..., Awaitable[NodeUnderTest]]


class Nodes:
    """The nodes of one test."""

    def __init__(self, clock: SimulatedClock | None = None) -> None:
        """`clock`: of all nodes; None: each has one that the test moves."""
        self._clock = clock
        self._running: list[Node] = []

    async def start(
        self,
        settings: dict[str, str] | None = None,
        *,
        disk: MemoryDisk | None = None,
        workers: Workers | None = None,
        seed: int = 7,
        further_disks: tuple[MemoryDisk, ...] = (),
        unopened_paths: tuple[str, ...] = (),
        timer_ns: Callable[[], int] | None = None,
    ) -> NodeUnderTest:
        network, clock = FedNetwork(), self._clock or ManualClock()
        memory = disk if disk is not None else MemoryDisk()
        port: Disk = memory
        ports = NodePorts(
            clock,
            SeededRandom(seed),
            port,
            workers or InlineWorkers(),
            network,
            further_disks=further_disks,
            paths=tuple(f"/disk{place}" for place in range(1 + len(further_disks))),
            unopened_paths=unopened_paths,
            timer_ns=timer_ns,
        )
        texts = {"listeners": "PLAINTEXT://10.0.0.1:9092", "offsets.topic.num.partitions": "1"}
        node = Node(parse_broker_settings({**texts, **(settings or {})}), ports)
        await node.start()
        self._running.append(node)
        return NodeUnderTest(node, ports, network, memory, clock)

    async def abort(self) -> None:
        """Ends all running nodes."""
        for node in self._running:
            node.abort()
        await turns(1)


@pytest_asyncio.fixture
async def start_node() -> AsyncIterator[StartNode]:
    """`await start_node(settings, disk=..., workers=...)`; nodes that still run at the end are aborted."""
    nodes = Nodes()
    yield nodes.start
    await nodes.abort()


@pytest_asyncio.fixture
async def node(start_node: StartNode) -> NodeUnderTest:
    """A node with default settings."""
    return await start_node()


@pytest_asyncio.fixture
async def client(node: NodeUnderTest) -> Client:
    """A connection to `node`."""
    return node.connect()


@pytest.fixture
def in_virtual_time() -> Callable[[Callable[[StartNode], Awaitable[None]]], None]:
    """For a test that is not a coroutine: `in_virtual_time(story)` awaits `story(start_node)`. There a wait takes no
    time, and the clock of the nodes follows the waits."""

    def run(story: Callable[[StartNode], Awaitable[None]]) -> None:
        with virtual_loop() as loop:
            nodes = Nodes(SimulatedClock(loop))

            async def tell() -> None:
                try:
                    await story(nodes.start)
                finally:
                    await nodes.abort()

            loop.run_until_complete(tell())

    return run


@pytest.fixture
def api() -> type[ApiKey]:
    return ApiKey
