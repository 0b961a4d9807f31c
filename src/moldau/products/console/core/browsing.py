"""A search over the records of a topic, read from a query string: start, partition, texts.

Nothing here raises. An invalid value becomes a sentence in `trouble`, and the rest of the search still applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, get_args

import msgspec

Start = Literal["end", "beginning", "offset", "time"]

COUNTS = (50, 200, 500)
"""How many records one page may show."""
MAX_TEXT = 200
MAX_OFFSET = (1 << 63) - 1
MAX_PARTITIONS = 200
"""How many partitions one page reads, and how many next offsets its link to the next page contains."""


class Question(msgspec.Struct, frozen=True):
    """`at` is the typed text: an offset or a time. `timestamp_ms` is that time. `partition` None means all."""

    start: Start = "end"
    at: str = ""
    offset: int = 0
    timestamp_ms: int = 0
    partition: int | None = None
    key: str = ""
    value: str = ""
    header: str = ""
    count: int = COUNTS[0]
    next_offsets: tuple[tuple[int, int], ...] = ()
    """By partition, the offset at which the previous page stopped. Overrides `start`."""
    trouble: str = ""

    @property
    def has_filter(self) -> bool:
        return bool(self.key or self.value or self.header)

    def takes(self, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> bool:
        """Whether a record contains the requested texts; ignores case."""
        if self.key and not _has(key, self.key):
            return False
        if self.value and not _has(value, self.value):
            return False
        return not self.header or any(
            self.header.lower() in name.lower() or _has(content, self.header) for name, content in headers
        )


def _has(data: bytes | None, text: str) -> bool:
    return data is not None and text.lower() in data.decode("utf-8", "replace").lower()


def read_question(parameters: Mapping[str, str]) -> Question:
    start = parameters.get("from", "end")
    question = Question(
        start=start if start in get_args(Start) else "end",  # type: ignore[arg-type]
        at=parameters.get("at", "").strip()[:MAX_TEXT],
        key=parameters.get("key", "")[:MAX_TEXT],
        value=parameters.get("value", "")[:MAX_TEXT],
        header=parameters.get("header", "")[:MAX_TEXT],
        next_offsets=_next_offsets(parameters.get("next", "")),
    )
    replace = msgspec.structs.replace
    count = _number(parameters.get("count", ""))
    if count in COUNTS:
        question = replace(question, count=count)
    partition = parameters.get("partition", "").strip()
    if partition:
        index = _number(partition)
        if index is None or index >= 1 << 31:
            question = replace(question, trouble=f"“{partition[:20]}” is no partition: all of them are shown")
        else:
            question = replace(question, partition=index)
    if question.start == "offset":
        offset = _number(question.at or "0")
        if offset is None or offset > MAX_OFFSET:
            return replace(question, trouble=f"“{question.at[:40]}” is no offset: an offset is a number from 0 on")
        return replace(question, offset=offset)
    if question.start == "time":
        timestamp_ms = read_time(question.at)
        if timestamp_ms is None:
            hint = "write 2026-01-31 14:05:00 (UTC), or milliseconds since 1970"
            return replace(question, trouble=f"“{question.at[:40]}” is no time: {hint}")
        return replace(question, timestamp_ms=timestamp_ms)
    return question


def read_time(text: str) -> int | None:
    """Milliseconds since the epoch for an ISO 8601 date or time (UTC if it names no zone), or for a number of
    milliseconds."""
    number = _number(text)
    if number is not None:
        return number if number <= MAX_OFFSET else None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0, int(moment.timestamp() * 1000))


def write_next(offsets: Mapping[int, int]) -> str:
    """The next offsets in the form of a link: `0:120,1:88`."""
    return ",".join(f"{index}:{offset}" for index, offset in list(offsets.items())[:MAX_PARTITIONS])


def _next_offsets(text: str) -> tuple[tuple[int, int], ...]:
    found = []
    for part in text[: MAX_PARTITIONS * 32].split(",")[:MAX_PARTITIONS]:
        index, colon, offset = part.partition(":")
        numbers = _number(index), _number(offset)
        if colon and numbers[0] is not None and numbers[1] is not None and numbers[1] <= MAX_OFFSET:
            found.append((numbers[0], numbers[1]))
    return tuple(found)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
