"""Clients that connect while the broker starts, on real sockets: all requests are answered, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import uvloop

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.shell.io.clock import SystemClock
from moldau.shell.io.disk import OsDisk
from moldau.shell.io.random import SystemRandom
from moldau.shell.io.workers import ThreadWorkers
from moldau.shell.network.connection_group import EARLY_BYTES
from moldau.shell.node.assemble import Node
from moldau.shell.node.ports import NodePorts
from moldau.transport.network import TcpNetwork
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.headers import RequestHeader, encode_request_header
from moldau.wire.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.wire.records.builder import build_batch

T = TypeVar("T")
PATIENCE_S = 60


class GatedWorkers(ThreadWorkers):
    """Threads whose work begins when the test opens the gate: until then the start waits for its first flush."""

    __slots__ = ("gate",)

    def __init__(self) -> None:
        super().__init__(threads=1)
        self.gate = asyncio.Event()

    async def run(self, work: Callable[[], T]) -> T:
        await self.gate.wait()
        return await super().run(work)


def produce(number: int, size: int) -> bytes:
    records = build_batch([(None, b"v" * size, 1_800_000_000_000, ())])
    data = (TopicProduceData(name="none", partition_data=(PartitionProduceData(0, records),)),)
    request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=data)
    header = encode_request_header(RequestHeader(int(ApiKey.PRODUCE), 8, number, "early"))
    return frame(header, encode_message(request, 8))


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, ProduceResponse]:
    body = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    return int.from_bytes(body[:4], "big"), decode_message(ProduceResponse, 8, body, 4)[0]


async def wait_for_port(node: Node) -> int:
    while True:
        if node._listeners:
            return node.port
        await asyncio.sleep(0)


async def ask_during_the_start(directory: Path, sizes: tuple[int, ...]) -> list[int]:
    workers = GatedWorkers()
    ports = NodePorts(SystemClock(), SystemRandom(), OsDisk(str(directory)), workers, TcpNetwork())
    node = Node(parse_broker_settings({"listeners": "PLAINTEXT://127.0.0.1:0"}), ports)
    starting = asyncio.ensure_future(node.start())
    reader, writer = await asyncio.open_connection("127.0.0.1", await wait_for_port(node))
    for number, size in enumerate(sizes, start=1):
        writer.write(produce(number, size))
        # one after the other: the broker can read each separately
        for _ in range(20):
            await asyncio.sleep(0)
    assert not starting.done()
    workers.gate.set()
    await starting
    answered = [(await read_answer(reader))[0] for _ in sizes]
    writer.close()
    await node.stop()
    workers.close()
    return answered


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("size", [10, EARLY_BYTES // 2, 100_000])
def test_requests_that_come_during_the_start_are_answered_in_order(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop], size: int
) -> None:
    async def scenario() -> list[int]:
        async with asyncio.timeout(PATIENCE_S):
            return await ask_during_the_start(tmp_path, (size,) * 5)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(scenario()) == [1, 2, 3, 4, 5]
