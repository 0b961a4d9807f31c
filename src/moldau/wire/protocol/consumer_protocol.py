"""The consumer protocol: subscriptions and assignments. The broker stores them as bytes, tools read them.

Kafka's ConsumerProtocolSubscription v0 to v3 and ConsumerProtocolAssignment, with Kafka's field names.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

from moldau.types import TopicPartition


class _Reader:
    """Raises ValueError at the end of the bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def integer(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big", signed=True)

    def text(self) -> str | None:
        """Invalid UTF-8 is replaced by U+FFFD, as in the codec."""
        length = self.integer(2)
        return None if length < 0 else self._take(length).decode("utf-8", "replace")

    def topics(self) -> Iterator[str]:
        """The topics of a subscription, after its version. Raises ValueError for null."""
        count = self.integer(4)
        if not 0 <= count <= len(self._data):
            raise ValueError("no array")
        for _ in range(count):
            topic = self.text()
            if topic is None:
                raise ValueError("no topic")
            yield topic

    def data(self) -> str | None:
        length = self.integer(4)
        return None if length < 0 else b64encode(self._take(length)).decode()

    def count(self) -> int:
        """The length of an array whose elements take at least two bytes each."""
        count = self.integer(4)
        if count > len(self._data):
            raise ValueError("cut")
        return max(count, 0)

    def partitions(self) -> list[dict[str, object]]:
        return [
            {"topic": self.text(), "partitions": [self.integer(4) for _ in range(self.count())]}
            for _ in range(self.count())
        ]

    def _take(self, size: int) -> bytes:
        taken = self._data[self._position : self._position + size]
        if len(taken) < size:
            raise ValueError("cut")
        self._position += size
        return taken


def subscription(data: bytes) -> dict[str, object]:
    """Raises ValueError for malformed bytes."""
    reader = _Reader(data)
    version = reader.integer(2)
    found: dict[str, object] = {"topics": [*reader.topics()], "userData": reader.data()}
    if version >= 1:
        found["ownedPartitions"] = reader.partitions()
    if version >= 2:
        found["generationId"] = reader.integer(4)
    if version >= 3:
        found["rackId"] = reader.text()
    return found


def assignment(data: bytes) -> dict[str, object]:
    """Raises ValueError for malformed bytes."""
    reader = _Reader(data)
    reader.integer(2)
    return {"assignedPartitions": reader.partitions(), "userData": reader.data()}


def subscribed_topics(data: bytes) -> tuple[str, ...] | None:
    """The topics of a subscription; all versions begin alike, and the rest is not read. None for malformed bytes,
    because members may write anything."""
    try:
        reader = _Reader(data)
        return tuple(reader.topics()) if reader.integer(2) >= 0 else None
    except ValueError:
        return None


def assigned_partitions(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions of an assignment, sorted. Empty for malformed bytes."""
    try:
        reader = _Reader(data)
        reader.integer(2)
        found = [
            TopicPartition(topic or "", reader.integer(4))
            for topic in (reader.text() for _ in range(reader.count()))
            for _ in range(reader.count())
        ]
    except ValueError:
        return ()
    return tuple(sorted(found))
