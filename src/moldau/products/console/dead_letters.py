"""The newest dead letters of a pipeline or a connector, with the reasons in their headers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec
from confluent_kafka import Message

from moldau.connect.handling.dead_letters import PREFIX
from moldau.products.console.browse import Found
from moldau.products.console.cluster import TopicFacts
from moldau.products.console.core.browsing import Question
from moldau.products.pipelines.core.commit_metadata import REASON_HEADER
from moldau.products.service.look.words import visible

MAX_DEAD_LETTERS = 10
"""The number of dead letters shown for one pipeline, and read from each topic."""
MAX_TOPICS = 4
MAX_KEPT = 50
"""How many topics' newest dead letters are cached until newer ones arrive."""
MAX_WORDS = 400

Find = Callable[[TopicFacts, Question], Found]


class DeadLetter(msgspec.Struct, frozen=True):
    """`topic`, `partition` and `offset` locate the dead letter; `origin` describes the source of its record in
    words."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    reason: str
    origin: str


class DeadLettersWatch:
    """Shared by all viewers: a topic is read again when it has grown. Thread-safe."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[TopicFacts, list[DeadLetter]]] = {}

    def newest(self, topics: Sequence[TopicFacts]) -> list[DeadLetter]:
        """The dead letters, newest first. Raises ClusterError."""
        found = [letter for topic in topics[:MAX_TOPICS] for letter in self._newest_of(topic)]
        found.sort(key=lambda letter: (letter.timestamp_ms, letter.offset), reverse=True)
        return found[:MAX_DEAD_LETTERS]

    def _newest_of(self, topic: TopicFacts) -> list[DeadLetter]:
        if not topic.records:
            return []
        with self._lock:
            seen, dead_letters = self._kept.get(topic.name, (None, []))
            if seen is None or _bounds(seen) != _bounds(topic):
                messages = self._find(topic, Question(count=MAX_DEAD_LETTERS)).messages
                dead_letters = [_dead_letter(message) for message in messages]
                if len(self._kept) >= MAX_KEPT:
                    self._kept.clear()
                self._kept[topic.name] = (topic, dead_letters)
            return dead_letters


def _bounds(topic: TopicFacts) -> list[tuple[int | None, int | None]]:
    """The offsets that identify the state of a topic. A recreated topic may have as many records as the old one, but
    hardly the same offsets."""
    return [(partition.start, partition.end) for partition in topic.partitions]


def _dead_letter(message: Message) -> DeadLetter:
    headers = {name: value for name, value in message.headers() or [] if isinstance(value, bytes)}

    def words(name: str) -> str:
        return visible(headers.get(name, b"").decode("utf-8", "replace"))[:MAX_WORDS]

    kind, timestamp_ms = message.timestamp()
    before = PREFIX if f"{PREFIX}topic" in headers else "moldau."
    place = "-".join(part for part in (words(f"{before}topic"), words(f"{before}partition")) if part)
    offset, stage = words(f"{before}offset"), words(f"{PREFIX}stage")
    reason = words(f"{PREFIX}exception.message") or words(f"{PREFIX}exception.class.name") or words(REASON_HEADER)
    return DeadLetter(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp_ms=timestamp_ms if kind else -1,
        reason=f"{stage}: {reason}" if stage else reason,
        origin=words("moldau.file") or (f"{place} @ {offset}" if place and offset else place),
    )
