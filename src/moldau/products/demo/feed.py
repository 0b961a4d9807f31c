"""Sends this machine's metrics and a replay of them, or the lines of a file, at a steady rate.

Each feed counts the records that it has sent. At the end, Spark must have written exactly as many.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections import Counter, deque
from pathlib import Path

from confluent_kafka import Producer

from moldau.client.protocol.access import ClusterAccess
from moldau.errors import MoldauError
from moldau.products.demo.metrics import MachineMetrics
from moldau.products.demo.planted import SOURCE, Plant, PlantedSeries
from moldau.transport.librdkafka import librdkafka_settings

TICKS_A_SECOND = 10
REPLAY_RECORDS_A_SECOND = 4_000
MACHINE = "machine"
REPLAY = "replay-"
NO_LEVEL = "-"
LEVEL = r"(?i)(?<![A-Z])(TRACE|DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|SEVERE|CRITICAL|FATAL)(?![A-Z])"

_FLUSH_SECONDS = 30.0


class FeedError(MoldauError):
    """The cluster did not accept a record."""


class _Sender:
    """An idempotent producer that keeps its first error."""

    def __init__(self, access: ClusterAccess, topic: str) -> None:
        self._topic = topic
        self._failed: str | None = None
        self._producer = Producer(
            {
                **librdkafka_settings(access),
                "enable.idempotence": True,
                "linger.ms": 5,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 200_000,
            },
            logger=logging.getLogger("moldau.demo"),
        )

    def send(self, key: str | None, value: bytes, timestamp_ms: int, partition: int = -1) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, value, key, partition, timestamp=timestamp_ms, on_delivery=self._delivered
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def poll(self) -> None:
        """Handles acknowledgements. Raises FeedError for a record that failed."""
        self._producer.poll(0)
        if self._failed is not None:
            raise FeedError(self._failed)

    def flush(self) -> None:
        left = self._producer.flush(_FLUSH_SECONDS)
        if left:
            raise FeedError(f"{left} records were not acknowledged in {_FLUSH_SECONDS:.0f} s")
        self.poll()

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None and self._failed is None:
            self._failed = f"a record was not taken: {error}"


class MetricsFeed:
    """Sends ten samples a second: of this machine, of the planted keys, and older samples under other names. `counts`:
    records per key. `history`: (seconds since the start, key, value) of the planted keys, for the chart."""

    def __init__(self, access: ClusterAccess, topic: str, seconds: int) -> None:
        self.sent = 0
        self.counts: Counter[str] = Counter()
        self.history: list[tuple[float, str, float]] = []
        self._ticks = seconds * TICKS_A_SECOND
        self._planted = PlantedSeries(self._ticks)
        self._sender = _Sender(access, topic)
        self._metrics = MachineMetrics()
        self._older: deque[dict[str, float]] = deque(maxlen=1)

    @property
    def plants(self) -> tuple[Plant, ...]:
        return self._planted.plants

    def open(self) -> None:
        """Sends a first sample. Raises FeedError."""
        self._send_all(MACHINE, self._metrics.sample(time.monotonic()), time.time_ns() // 1_000_000)
        self._sender.flush()

    def run(self, stop: threading.Event) -> None:
        """Sends samples until the time is over or `stop` is set. Raises FeedError."""
        began = time.monotonic()
        for tick in range(self._ticks):
            if stop.wait(max(0.0, began + tick / TICKS_A_SECOND - time.monotonic())):
                break
            self._send_tick(tick)
            self._sender.poll()
        self._sender.flush()

    def _send_tick(self, tick: int) -> None:
        timestamp_ms = time.time_ns() // 1_000_000
        values = self._metrics.sample(time.monotonic())
        replays = max(1, round(REPLAY_RECORDS_A_SECOND / TICKS_A_SECOND / len(values)))
        if self._older.maxlen != replays:
            self._older = deque(self._older, maxlen=replays)
        self._older.appendleft(dict(values))
        if tick % TICKS_A_SECOND == 0:
            values |= self._metrics.processes()
        self._send_all(MACHINE, values, timestamp_ms)
        for number in range(1, replays + 1):
            # replay 7 repeats the machine's sample of 7 ticks ago
            older = self._older[min(number, len(self._older) - 1)]
            self._send_all(f"{REPLAY}{number:03}", older, timestamp_ms)
        for key, value in self._planted.sample(tick).items():
            self.history.append((tick / TICKS_A_SECOND, key, value))
            self._send_all(SOURCE, {key.removeprefix(f"{SOURCE}/"): value}, timestamp_ms)

    def _send_all(self, source: str, values: dict[str, float], timestamp_ms: int) -> None:
        for metric, value in values.items():
            key = f"{source}/{metric}"
            record = json.dumps({"source": source, "metric": metric, "value": value}, separators=(",", ":"))
            self._sender.send(key, record.encode(), timestamp_ms)
            self.sent += 1
            self.counts[key] += 1


class FileFeed:
    """Sends each line of a file once, spread evenly over the time. The line's end is not sent. `counts`: lines per
    level word, counted here and not by Spark. `bytes_sent`: the size of all lines together."""

    def __init__(self, access: ClusterAccess, topic: str, seconds: int, path: Path) -> None:
        self.sent = 0
        self.bytes_sent = 0
        self.counts: Counter[str] = Counter()
        self._path = path
        self._seconds = seconds
        self._size = path.stat().st_size
        self._first_bytes = 0
        self._sender = _Sender(access, topic)

    def open(self) -> None:
        """Sends the first line. Raises FeedError, OSError."""
        with self._path.open("rb") as file:
            first = file.readline()
        self._first_bytes = len(first)
        if first:
            self._send_line(first.removesuffix(b"\n"))
        self._sender.flush()

    def run(self, stop: threading.Event) -> None:
        """Sends the other lines until the time is over or `stop` is set. Raises FeedError, OSError."""
        began = time.monotonic()
        read = self._first_bytes
        with self._path.open("rb") as file:
            file.seek(self._first_bytes)
            for raw in file:
                read += len(raw)
                if read > self._size:  # the file has grown: later lines are not part of the run
                    break
                due = began + self._seconds * read / self._size
                if due - time.monotonic() > 0.01 and stop.wait(due - time.monotonic()):
                    break
                self._send_line(raw.removesuffix(b"\n"))
                self._sender.poll()
        self._sender.flush()

    def _send_line(self, line: bytes) -> None:
        self._sender.send(None, line, time.time_ns() // 1_000_000)
        self.sent += 1
        self.bytes_sent += len(line)
        self.counts[level_of(line)] += 1


def level_of(line: bytes) -> str:
    """The first level word of a line, in capitals; NO_LEVEL for a line without one."""
    found = re.search(LEVEL.encode(), line)
    return found[1].decode("ascii").upper() if found else NO_LEVEL


def send_closing_records(access: ClusterAccess, topic: str, partitions: int, timestamp_ms: int) -> None:
    """Sends one record to each partition, late enough to close every window. Raises FeedError."""
    sender = _Sender(access, topic)
    for partition in range(partitions):
        sender.send("closing", b'{"source":"closing"}', timestamp_ms, partition)
    sender.flush()
