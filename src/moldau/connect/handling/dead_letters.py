"""A record that could not be handled, as one to produce: its bytes, and headers that say where and why."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass

from moldau.connect.handling.stages import Stage

PREFIX = "__connect.errors."

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Consumed:
    """A record of a topic as a sink's task got it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None

    def __str__(self) -> str:
        """For a log: without the key and the value."""
        timestamp = "" if self.timestamp_ms is None else f", timestamp={self.timestamp_ms}"
        return f"{{topic='{self.topic}', partition={self.partition}, offset={self.offset}{timestamp}}}"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """To produce to `topic`. The producer chooses the partition."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of one record. `executing`: the class or function that ran."""

    stage: Stage
    executing: str
    error: BaseException
    attempts: int


def dead_letter(
    topic: str, consumed: Consumed, failure: Failure, connector: str, task: int, *, has_context: bool
) -> DeadLetter:
    headers = consumed.headers
    if has_context:
        headers = (*headers, *_context(consumed, failure, connector, task))
    return DeadLetter(topic, consumed.key, consumed.value, headers, consumed.timestamp_ms)


def _context(consumed: Consumed, failure: Failure, connector: str, task: int) -> Iterator[tuple[str, bytes | None]]:
    error = failure.error
    trace = "".join(traceback.format_exception(error))
    for name, text in (
        ("topic", consumed.topic),
        ("partition", str(consumed.partition)),
        ("offset", str(consumed.offset)),
        ("connector.name", connector),
        ("task.id", str(task)),
        ("stage", failure.stage.value),
        ("class.name", failure.executing),
        ("exception.class.name", f"{type(error).__module__}.{type(error).__qualname__}"),
        ("exception.message", str(error)),
        ("exception.stacktrace", trace),
    ):
        yield PREFIX + name, text.encode("utf-8", "replace")
