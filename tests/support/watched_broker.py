"""A broker in its own process, with its memory and its bounds in view."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.canary import Canary
from tests.support.running_broker import RunningBroker
from tests.support.wire import RawConnection

StartBroker = Callable[..., "WatchedBroker"]


class WatchedBroker:
    """A broker in its own process with a canary, and its memory as the kernel counts it."""

    def __init__(self, *settings: str, directory: Path) -> None:
        arguments = ["--data-dir", str(directory), "--listen", "127.0.0.1:0"]
        for setting in settings:
            arguments += ["--set", setting]
        self.running = RunningBroker(*arguments).wait_until_ready()
        self.address = self.running.address
        self.opened: list[RawConnection] = []
        self.canary = Canary(self.address)
        self.connect().assert_alive()

    def connect(self, kernel_buffer_bytes: int = 0) -> RawConnection:
        self.opened.append(RawConnection(self.address, kernel_buffer_bytes=kernel_buffer_bytes))
        return self.opened[-1]

    def peak_bytes(self) -> int:
        """The peak resident memory."""
        status = Path(f"/proc/{self.running.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024

    def open_files(self) -> list[str]:
        """The present targets of its descriptors."""
        found = []
        for link in Path(f"/proc/{self.running.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(os.readlink(link))
        return found

    def close_connections(self) -> None:
        for connection in self.opened:
            connection.socket.close()
        self.opened.clear()

    def finish(self) -> None:
        self.close_connections()
        try:
            self.canary.finish()
            assert self.running.stop() == 0
            assert "Traceback" not in "".join(self.running.output)
        finally:
            self.running.stop()


def fill(address: str, topic: str, megabytes: int, *, batch_bytes: int = 990_000) -> None:
    problems: list[object] = []
    settings = {"message.max.bytes": 1_000_000, "linger.ms": 0, "batch.num.messages": 1}
    producer = Producer({"bootstrap.servers": address, **settings})
    for _ in range(megabytes * 990_000 // batch_bytes):
        producer.produce(topic, bytes(batch_bytes), partition=0, on_delivery=lambda error, _: problems.append(error))
        producer.poll(0)
    assert producer.flush(60) == 0
    assert set(problems) == {None}


def fetch(topic: str, max_bytes: int, *, offset: int = 0, max_wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=(FetchTopic(topic=topic, partitions=(partition,)),),
    )
