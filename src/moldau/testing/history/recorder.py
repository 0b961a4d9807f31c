"""Records what clients do and see: the file, and recording clients of confluent-kafka."""

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
    """Appends to the file at `path`, until the end of a `with`. Other processes may record into the same file.

    `naming` gives the names of records; by default it is their value.
    """
    return Recorder(path, naming)


class Recorder:
    """Makes clients that record into one file. Names of processes belong to one process of the machine each."""

    def __init__(self, path: str | Path, naming: Naming) -> None:
        self._lines = Appender(path)
        self._session = Session(self._lines.append, naming)
        self._clients = itertools.count(1)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """The clients of the recorder must be done: what they see afterwards cannot be recorded."""
        self._lines.close()

    def producer(self, settings: Mapping[str, Any], process: str | None = None) -> RecordedProducer:
        """A confluent_kafka.Producer. `process`: its name in the history, else one that nobody has is made."""
        return RecordedProducer(self._session, settings, process or self._fresh_name("producer"))

    def consumer(self, settings: Mapping[str, Any], process: str | None = None) -> RecordedConsumer:
        """A confluent_kafka.Consumer. Give a producer and a consumer that copy together one name: what the one reads
        is then a part of the other's transactions."""
        return RecordedConsumer(self._session, settings, process or self._fresh_name("consumer"))

    def read_to_end(
        self, settings: Mapping[str, Any], topics: Iterable[str], timeout_s: float = 60
    ) -> Iterator[Message]:
        """Every committed record of the topics; and notes where each log ends.

        To be called when the cluster is well and nobody writes any more: an acknowledged record that is not there is
        lost then. Raises NotReachedError where nothing comes for `timeout_s` before the end.
        """
        overriding = {"enable.partition.eof": True, "enable.auto.commit": False, "isolation.level": "read_committed"}
        consumer = self.consumer({"group.id": "history"} | dict(settings) | overriding)
        try:
            yield from consumer.read_to_end(_ends(settings, topics), timeout_s)
        finally:
            consumer.close()

    def fault(self, text: str) -> None:
        """Notes what was done to the cluster, for the readers of the history."""
        self._session.write(events.Fault(process="operator", text=text, at_ms=now_ms()))

    def topic_created(self, topic: str) -> None:
        """Notes that a topic was created anew: records of the one before it count no more."""
        self._session.write(events.TopicCreated(process="operator", topic=topic, at_ms=now_ms()))

    def crash(self, process: str) -> None:
        """Notes that a recorded process was killed."""
        self._session.write(events.Crash(process=process, at_ms=now_ms()))

    def _fresh_name(self, kind: str) -> str:
        return f"{kind}-{os.getpid()}-{next(self._clients)}"


def _ends(settings: Mapping[str, Any], topics: Iterable[str]) -> list[TopicPartition]:
    """The end of each log, with what is not committed yet."""
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
