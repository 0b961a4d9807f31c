"""Records the operations of clients: the file, and recording confluent-kafka clients."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from moldau.testing.history import events
from moldau.testing.history.file import Appender
from moldau.testing.history.naming import Naming, name_of
from moldau.testing.history.recorded_consumer import RecordedConsumer
from moldau.testing.history.recorded_producer import RecordedProducer
from moldau.testing.history.session import Session, now_ms

QUERY_TIMEOUT_S = 30


def record(path: str | Path, naming: Naming = name_of) -> Recorder:
    """Appends to the file at `path` until the end of the `with` block. Other processes may record into the same file.

    `naming` gives the names of records; by default it is their value.
    """
    return Recorder(path, naming)


class Recorder:
    """Makes clients that record into one file. A process name must be unique on the machine."""

    def __init__(self, path: str | Path, naming: Naming) -> None:
        self._lines = Appender(path)
        self._session = Session(self._lines.append, naming)
        self._clients = itertools.count(1)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the clients first, because later events cannot be recorded."""
        self._lines.close()

    def producer(self, settings: Mapping[str, Any], process: str | None = None) -> RecordedProducer:
        """A confluent_kafka.Producer. `process`: its name in the history; by default a unique one."""
        return RecordedProducer(self._session, settings, process or self._fresh_name("producer"))

    def consumer(self, settings: Mapping[str, Any], process: str | None = None) -> RecordedConsumer:
        """A confluent_kafka.Consumer. Give a producer and a consumer that copy together the same name. The consumer's
        reads are then part of the producer's transactions."""
        return RecordedConsumer(self._session, settings, process or self._fresh_name("consumer"))

    def read_to_end(
        self, settings: Mapping[str, Any], topics: Iterable[str], timeout_s: float = 60
    ) -> Iterator[Message]:
        """Reads every committed record of the topics, and writes the end of each log to the history.

        Call it when the cluster is healthy and no producer writes any more: an acknowledged record that is missing then
        is lost. Raises NotReachedError if no record comes for `timeout_s` before the end.
        """
        overriding = {"enable.partition.eof": True, "enable.auto.commit": False, "isolation.level": "read_committed"}
        consumer = self.consumer({"group.id": "history"} | dict(settings) | overriding)
        try:
            yield from consumer.read_to_end(_ends(settings, topics), timeout_s)
        finally:
            consumer.close()

    def fault(self, text: str) -> None:
        """Writes a fault of the cluster to the history, for its readers."""
        self._session.write(events.Fault(process="operator", text=text, at_ms=now_ms()))

    def topic_created(self, topic: str) -> None:
        """Writes to the history that a topic was created again: records of the earlier one no longer count."""
        self._session.write(events.TopicCreated(process="operator", topic=topic, at_ms=now_ms()))

    def crash(self, process: str) -> None:
        """Writes to the history that a recorded process was killed."""
        self._session.write(events.Crash(process=process, at_ms=now_ms()))

    def _fresh_name(self, kind: str) -> str:
        return f"{kind}-{os.getpid()}-{next(self._clients)}"


def _ends(settings: Mapping[str, Any], topics: Iterable[str]) -> list[TopicPartition]:
    """The end of each log, including records that are not committed yet."""
    raw = Consumer({"group.id": "history"} | dict(settings) | {"isolation.level": "read_uncommitted"})
    try:
        ends = []
        for topic in topics:
            for partition in raw.list_topics(topic, QUERY_TIMEOUT_S).topics[topic].partitions:
                _, end = raw.get_watermark_offsets(TopicPartition(topic, partition), QUERY_TIMEOUT_S)
                ends.append(TopicPartition(topic, partition, end))
        return ends
    finally:
        raw.close()
