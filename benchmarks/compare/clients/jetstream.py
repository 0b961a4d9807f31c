"""nats-py: a stream on files, asynchronous publishing, a durable push consumer that acknowledges many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StorageType

from benchmarks.compare.clients import IDLE_S
from benchmarks.compare.values import Acknowledged

DEADLINE_S = 60


class Stream:
    """A stream of one server, with one subject."""

    def __init__(self, address: str) -> None:
        self._address = f"nats://{address}"

    async def _connect(self) -> Any:
        return await nats.connect(self._address, allow_reconnect=False, connect_timeout=DEADLINE_S)

    def create(self, name: str) -> None:
        async def create() -> None:
            client = await self._connect()
            await client.jetstream().add_stream(name=name, subjects=[name], storage=StorageType.FILE)
            await client.close()

        asyncio.run(create())

    def delete(self, name: str) -> None:
        async def delete() -> None:
            client = await self._connect()
            await client.jetstream().delete_stream(name)
            await client.close()

        asyncio.run(delete())

    def write(self, name: str, values: Iterator[bytes | None], window: int, acknowledged: Acknowledged) -> None:
        asyncio.run(self._write(name, values, window, acknowledged))

    async def _write(self, name: str, values: Iterator[bytes | None], window: int, acknowledged: Acknowledged) -> None:
        client = await self._connect()
        stream = client.jetstream(publish_async_max_pending=window)

        def done(answer: asyncio.Future[Any]) -> None:
            number = answer.result().seq - 1
            acknowledged.mark(number, number + 1)

        for value in values:
            if value is None:
                await asyncio.sleep(0.0005)
                continue
            (await stream.publish_async(name, value)).add_done_callback(done)
        await asyncio.wait_for(stream.publish_async_completed(), DEADLINE_S)
        await asyncio.sleep(0)  # the callback of the last answer
        await client.close()

    def read(self, name: str, reader: str, window: int) -> Iterator[list[bytes]]:
        messages: list[Any] = []
        arrived = asyncio.Event()

        async def deliver(message: Any) -> None:
            messages.append(message)
            arrived.set()

        async def start() -> Any:
            client = await self._connect()
            config = ConsumerConfig(
                ack_policy=AckPolicy.ALL, deliver_policy=DeliverPolicy.ALL, max_ack_pending=window, ack_wait=DEADLINE_S
            )
            await client.jetstream().subscribe(name, durable=reader, cb=deliver, manual_ack=True, config=config)
            return client

        async def take() -> list[bytes]:
            arrived.clear()
            if not messages:
                try:
                    await asyncio.wait_for(arrived.wait(), IDLE_S)
                except TimeoutError:
                    return []
            values = [message.data for message in messages]
            await messages[-1].ack()
            messages.clear()
            return values

        with asyncio.Runner() as runner:
            client = runner.run(start())
            try:
                while True:
                    yield runner.run(take())
            finally:
                runner.run(client.close())


def connect(address: str, durability: str) -> Stream:
    return Stream(address)
