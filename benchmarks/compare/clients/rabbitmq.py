"""pika: durable queues, persistent messages, publisher confirms."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pika
from pika.adapters.asyncio_connection import AsyncioConnection

from benchmarks.compare.clients import IDLE_S
from benchmarks.compare.values import Acknowledged
from benchmarks.peers import PeerError

DEADLINE_S = 60


class Queue:
    """A queue of this type (`classic` or `quorum`)."""

    def __init__(self, address: str, queue_type: str) -> None:
        host, _, port = address.rpartition(":")
        self._parameters = pika.ConnectionParameters(host, int(port))
        self._arguments = {"x-queue-type": queue_type}

    def create(self, name: str) -> None:
        with pika.BlockingConnection(self._parameters) as connection:
            connection.channel().queue_declare(name, durable=True, arguments=self._arguments)

    def delete(self, name: str) -> None:
        with pika.BlockingConnection(self._parameters) as connection:
            connection.channel().queue_delete(name)

    def write(self, name: str, values: Iterator[bytes | None], window: int, acknowledged: Acknowledged) -> None:
        asyncio.run(self._write(name, values, window, acknowledged))

    async def _write(self, name: str, values: Iterator[bytes | None], window: int, acknowledged: Acknowledged) -> None:
        """Pika's blocking adapter waits for each confirm; its asynchronous ones do not."""
        loop = asyncio.get_running_loop()
        channel, progress = await self._confirming_channel(loop, acknowledged)
        persistent = pika.BasicProperties(delivery_mode=2)
        sent = 0

        async def wait_for(outstanding: int) -> None:
            while sent - acknowledged.count >= outstanding:
                progress.clear()
                if sent - acknowledged.count >= outstanding:
                    await asyncio.wait_for(progress.wait(), DEADLINE_S)

        for value in values:
            if value is None:
                await asyncio.sleep(0.0005)
                continue
            if sent - acknowledged.count >= window:
                await wait_for(window)
            channel.basic_publish("", name, value, persistent)
            sent += 1
        await wait_for(1)
        closed = loop.create_future()
        channel.connection.add_on_close_callback(lambda *_: closed.set_result(None))
        channel.connection.close()
        await asyncio.wait_for(closed, DEADLINE_S)

    async def _confirming_channel(
        self, loop: asyncio.AbstractEventLoop, acknowledged: Acknowledged
    ) -> tuple[Any, asyncio.Event]:
        ready, progress = loop.create_future(), asyncio.Event()
        unconfirmed = 0

        def confirmed(frame: Any) -> None:
            nonlocal unconfirmed
            if isinstance(frame.method, pika.spec.Basic.Nack):
                raise PeerError("RabbitMQ rejected a message")
            tag = frame.method.delivery_tag  # counts from 1
            acknowledged.mark(unconfirmed if frame.method.multiple else tag - 1, tag)
            if frame.method.multiple:
                unconfirmed = tag
            progress.set()

        def opened(channel: Any) -> None:
            channel.confirm_delivery(confirmed, callback=lambda _: ready.set_result(channel))

        AsyncioConnection(
            self._parameters,
            on_open_callback=lambda connection: connection.channel(on_open_callback=opened),
            on_open_error_callback=lambda _, error: ready.set_exception(PeerError(f"RabbitMQ: {error}")),
            custom_ioloop=loop,
        )
        return await asyncio.wait_for(ready, DEADLINE_S), progress

    def read(self, name: str, reader: str, window: int) -> Iterator[list[bytes]]:
        """A queue knows no readers: each record goes to one of those that are connected."""
        connection = pika.BlockingConnection(self._parameters)
        batch: list[bytes] = []
        newest = 0

        def deliver(_channel: object, method: Any, _properties: object, body: bytes) -> None:
            nonlocal newest
            batch.append(body)
            newest = method.delivery_tag

        try:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=window)
            channel.basic_consume(name, deliver)
            while True:
                batch.clear()
                connection.process_data_events(time_limit=IDLE_S)
                if batch:
                    channel.basic_ack(newest, multiple=True)
                yield list(batch)
        finally:
            connection.close()


def connect_classic(address: str, durability: str) -> Queue:
    return Queue(address, "classic")


def connect_quorum(address: str, durability: str) -> Queue:
    return Queue(address, "quorum")
