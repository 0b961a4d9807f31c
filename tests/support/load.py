"""Clients that run while a cluster changes: an idempotent producer, a group of two and, if asked for, a transactional
copier. They are recorded, and checked at the end."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from moldau.testing import history
from tests.exactly_once.copier import AT_END
from tests.support.talking_process import TalkingProcess

PATIENCE_S = 120
PAUSE_S = 0.002
"""Between two records."""
PAUSE_OF_COPIED_S = 0.05
"""The copier commits every twenty records, and must keep up."""


@contextmanager
def under_load(
    bootstrap_servers: str,
    path: Path,
    topic: str,
    partitions: int,
    copy: history.Copy | None = None,
    *,
    clients: Mapping[str, Any] | None = None,
) -> Iterator[None]:
    """Of an existing topic; `path` gets the history. No client may see an error, and no acknowledged record may be
    lost, duplicated or out of order. `copy`: of two more topics with as many partitions, in transactions. `clients`:
    settings of librdkafka for a listener that needs more than an address; the copier knows none of them."""
    connecting = {"bootstrap.servers": bootstrap_servers, **(clients or {})}
    with history.record(path) as recorder:
        load = _Load(recorder, connecting, topic, partitions, copy, path)
        load.start()
        try:
            assert load.has_read.wait(PATIENCE_S)
            yield
        finally:
            load.stop()
        assert load.problems == []
        topics = [topic] if copy is None else [topic, copy.source, copy.target]
        read = list(recorder.read_to_end(connecting, topics))
    verdict = history.judge(history.HistoryFile(path), copies=[] if copy is None else [copy])
    assert not verdict.findings, str(verdict)
    acknowledged = verdict.judged["records acknowledged"]
    # records of an aborted transaction that were copied again are acknowledged too
    assert 0 < len(read) <= acknowledged
    assert copy is not None or len(read) == acknowledged


class _Load:
    def __init__(
        self,
        recorder: history.Recorder,
        connecting: Mapping[str, Any],
        topic: str,
        partitions: int,
        copy: history.Copy | None,
        path: Path,
    ) -> None:
        self.problems: list[str] = []
        self._recorder = recorder
        self._settings = {**connecting, "log_level": 0}
        self._topic = topic
        self._partitions = partitions
        self.has_read = threading.Event()
        """A record went through, and its offset is committed."""
        self._has_to_stop = threading.Event()
        writes = [(topic, PAUSE_S)] if copy is None else [(topic, PAUSE_S), (copy.source, PAUSE_OF_COPIED_S)]
        self._threads = [threading.Thread(target=self._write, args=each) for each in writes]
        self._threads += [threading.Thread(target=self._read) for _ in range(2)]
        servers = connecting["bootstrap.servers"]
        self._copied = [] if copy is None else [servers, copy.source, copy.target, "copiers", str(path)]
        self._copier = None if copy is None else self._new_copier()

    def _new_copier(self) -> TalkingProcess:
        return TalkingProcess([sys.executable, "-m", "tests.exactly_once.copier", *self._copied, "--member"])

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._has_to_stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        if self._copier is not None:
            self._stop_copier(self._copier)

    def _stop_copier(self, copier: TalkingProcess) -> None:
        """A copier that ended by itself has failed. Another one reads to the end of the source: after the first one
        reported the end, more records may have come."""
        if copier.live_on(0) is not None:
            self.problems.append(f"the copier ended by itself: {copier.output[-3:]}")
        copier.kill()
        last = self._new_copier()
        try:
            is_at_end = last.wait_for(lambda line: line.startswith(AT_END), time.monotonic() + PATIENCE_S)
        except queue.Empty:
            is_at_end = False
        if not is_at_end:
            self.problems.append(f"the copier does not come to the end of its source: {last.output[-3:]}")
        last.kill()

    def _write(self, topic: str, pause_s: float) -> None:
        producer = self._recorder.producer({**self._settings, "enable.idempotence": True})

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                self.problems.append(f"not delivered: {error}")

        number = 0
        while not self._has_to_stop.is_set():
            value = f"{topic} {number}"
            producer.produce(topic, value, partition=number % self._partitions, on_delivery=delivered)
            number += 1
            producer.poll(pause_s)
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
                    continue  # another member owns it now, or the coordinator moves: the next one commits
                self.has_read.set()
        consumer.close()
