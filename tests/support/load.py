"""Clients that go on while a cluster changes: an idempotent producer, and a group of two. They are recorded, and judged
at the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message

from moldau.testing import history

PATIENCE_S = 120
PAUSE_S = 0.002
"""Between two records."""


@contextmanager
def under_load(bootstrap_servers: str, path: Path, topic: str, partitions: int) -> Iterator[None]:
    """Of an existing topic; `path` gets the history. No client may see an error, and no acknowledged record may be
    lost, come twice or out of order."""
    with history.record(path) as recorder:
        load = _Load(recorder, bootstrap_servers, topic, partitions)
        load.start()
        try:
            assert load.has_read.wait(PATIENCE_S)
            yield
        finally:
            load.stop()
        assert load.problems == []
        read = list(recorder.read_to_end({"bootstrap.servers": bootstrap_servers}, [topic]))
    verdict = history.judge(history.HistoryFile(path))
    assert not verdict.findings, str(verdict)
    assert len(read) == verdict.judged["records acknowledged"] > 0


class _Load:
    def __init__(self, recorder: history.Recorder, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self.problems: list[str] = []
        self._recorder = recorder
        self._settings = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._topic = topic
        self._partitions = partitions
        self.has_read = threading.Event()
        """A record went all the way, and its position is committed."""
        self._has_to_stop = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._write, self._read, self._read)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._has_to_stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _write(self) -> None:
        producer = self._recorder.producer({**self._settings, "enable.idempotence": True})

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                self.problems.append(f"not delivered: {error}")

        number = 0
        while not self._has_to_stop.is_set():
            producer.produce(self._topic, str(number), partition=number % self._partitions, on_delivery=delivered)
            number += 1
            producer.poll(PAUSE_S)
        if left := producer.flush(PATIENCE_S):
            self.problems.append(f"{left} records were not acknowledged")

    def _read(self) -> None:
        group = {"group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = self._recorder.consumer({**self._settings, **group})
        consumer.subscribe([self._topic])
        while not self._has_to_stop.is_set():
            messages = consumer.consume(1_000, timeout=0.5)
            self.problems += [f"read: {each.error()}" for each in messages if each.error() is not None]
            if messages:
                try:
                    consumer.commit(asynchronous=False)
                except KafkaException:
                    continue  # the other member has it now, or the coordinator moves: the next one commits
                self.has_read.set()
        consumer.close()
