"""redis-py: XADD in pipelines, consumer groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import redis

from benchmarks.compare.clients import IDLE_S
from benchmarks.compare.values import Acknowledged


class Stream:
    """A stream without a length limit."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._redis: Any = redis.Redis(host=host, port=int(port), socket_timeout=60)

    def create(self, name: str) -> None:
        self._redis.ping()  # the first XADD makes the stream

    def delete(self, name: str) -> None:
        self._redis.delete(name)

    def write(self, name: str, values: Iterator[bytes | None], window: int, acknowledged: Acknowledged) -> None:
        """A pipeline is a batch of commands whose answers come together."""
        pipeline = self._redis.pipeline(transaction=False)
        held = done = 0

        def send() -> None:
            nonlocal held, done
            pipeline.execute()
            acknowledged.mark(done, done + held)
            done += held
            held = 0

        for value in values:
            if value is not None:
                pipeline.xadd(name, {b"value": value})
                held += 1
            if held >= window or (value is None and held):
                send()
        if held:
            send()

    def read(self, name: str, reader: str, window: int) -> Iterator[list[bytes]]:
        self._redis.xgroup_create(name, reader, id="0", mkstream=True)
        while True:
            found = self._redis.xreadgroup(reader, "one", {name: ">"}, count=window, block=int(1000 * IDLE_S))
            entries = [entry for _, each in found or [] for entry in each]
            yield [fields[b"value"] for _, fields in entries]
            if entries:
                self._redis.xack(name, reader, *(key for key, _ in entries))


def connect(address: str, durability: str) -> Stream:
    return Stream(address)
