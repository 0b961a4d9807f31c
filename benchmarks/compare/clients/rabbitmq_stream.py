"""rstream: RabbitMQ's streams through their own protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from rstream import Consumer, ConsumerOffsetSpecification, OffsetType, Producer

from benchmarks.compare.clients import IDLE_S
from benchmarks.compare.values import Acknowledged
from benchmarks.peers import PeerError

DEADLINE_S = 60
BATCHES_OF_A_WINDOW = 10


class Stream:
    """A stream of one node."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._login: dict[str, Any] = {"host": host, "port": int(port), "username": "guest", "password": "guest"}

    def create(self, name: str) -> None:
        async def create() -> None:
            async with Producer(**self._login) as producer:
                await producer.create_stream(name)

        asyncio.run(create())

    def delete(self, name: str) -> None:
        async def delete() -> None:
            async with Producer(**self._login) as producer:
                await producer.delete_stream(name)

        asyncio.run(delete())

    def write(self, name: str, values: Iterator[bytes | None], window: int, acknowledged: Acknowledged) -> None:
        asyncio.run(self._write(name, values, window, acknowledged))

    async def _write(self, name: str, values: Iterator[bytes | None], window: int, acknowledged: Acknowledged) -> None:
        """In batches: `Producer.send` of this library keeps a record back for half a second."""
        sent, progress = 0, asyncio.Event()
        batch: list[Any] = []

        def confirmed(status: Any) -> None:
            if not status.is_confirmed:
                raise PeerError(f"RabbitMQ rejected a record of a stream: {status.response_code}")
            number = status.message_id - 1  # the library counts from 1
            acknowledged.mark(number, number + 1)
            progress.set()

        async def wait_for(outstanding: int) -> None:
            while sent - acknowledged.count >= outstanding:
                progress.clear()
                if sent - acknowledged.count >= outstanding:
                    await asyncio.wait_for(progress.wait(), DEADLINE_S)

        async def send() -> None:
            nonlocal sent
            sent += len(batch)
            await producer.send_batch(name, batch, on_publish_confirm=confirmed)
            batch.clear()

        async with Producer(**self._login) as producer:
            for value in values:
                if value is None:
                    if batch:
                        await send()
                    await asyncio.sleep(0.0005)
                    continue
                batch.append(value)
                if len(batch) >= max(1, window // BATCHES_OF_A_WINDOW):
                    await wait_for(window - len(batch) + 1)
                    await send()
            if batch:
                await send()
            await wait_for(1)

    def read(self, name: str, reader: str, window: int) -> Iterator[list[bytes]]:
        batch: list[bytes] = []
        arrived = asyncio.Event()

        def deliver(value: Any, _context: object) -> None:
            batch.append(bytes(value))
            arrived.set()

        async def start() -> Consumer:
            consumer = Consumer(**self._login)
            await consumer.start()
            first = ConsumerOffsetSpecification(OffsetType.FIRST, None)
            await consumer.subscribe(name, deliver, decoder=bytes, offset_specification=first, subscriber_name=reader)
            return consumer

        async def wait() -> None:
            arrived.clear()
            if not batch:
                try:
                    await asyncio.wait_for(arrived.wait(), IDLE_S)
                except TimeoutError:
                    pass

        with asyncio.Runner() as runner:
            consumer = runner.run(start())
            try:
                while True:
                    runner.run(wait())
                    given = batch[:]
                    batch.clear()
                    yield given
            finally:
                runner.run(consumer.close())


def connect(address: str, durability: str) -> Stream:
    return Stream(address)
