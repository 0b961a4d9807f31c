"""Partitions, times and durations as Kafka's own tools take them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from moldau.errors import kafka_error
from moldau.types import TopicPartition

_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:\.(\d{0,9}))?S)?)?", re.IGNORECASE
)


def parse_partitions(text: str, partitions_of: Callable[[str], list[int] | None]) -> list[TopicPartition]:
    """Parses `topic` (all partitions) or `topic:0,1`. Raises UNKNOWN_TOPIC_OR_PARTITION, and ValueError for any other
    form."""
    topic, colon, listed = text.rpartition(":")
    if not colon:
        topic, listed = text, ""
    return named_partitions(topic, [int(number) for number in listed.split(",")] if colon else None, partitions_of)


def named_partitions(
    topic: str, numbers: list[int] | None, partitions_of: Callable[[str], list[int] | None]
) -> list[TopicPartition]:
    """The partitions `numbers` of the topic, sorted; None means all. Raises UNKNOWN_TOPIC_OR_PARTITION."""
    known = partitions_of(topic)
    if known is None:
        raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition.")
    if numbers is None:
        numbers = known
    missing = [TopicPartition(topic, number) for number in numbers if number not in known]
    if missing:
        named = ",".join(str(partition) for partition in missing)
        raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f'The partitions "{named}" do not exist')
    return sorted(TopicPartition(topic, number) for number in numbers)


def parse_datetime(text: str) -> int:
    """Milliseconds since 1970 for an ISO 8601 time, in UTC if it names no zone. Raises ValueError."""
    if "T" not in text:
        raise ValueError("Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def parse_duration_ms(text: str) -> int:
    """Milliseconds for an ISO 8601 duration such as PT1H30M or P2D. Raises ValueError."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found[number] for number in (2, 4, 5, 6)):
        raise ValueError("Text cannot be parsed to a Duration")
    sign, days, _, hours, minutes, seconds, fraction = found.groups()
    whole = int(days or 0) * 86_400 + int(hours or 0) * 3_600 + int(minutes or 0) * 60
    milliseconds = (whole + int(seconds or 0)) * 1000
    part = int((fraction or "").ljust(3, "0")[:3])
    milliseconds += -part if (seconds or "").startswith("-") else part
    if abs(milliseconds) >= 1 << 62:
        raise ValueError("Text cannot be parsed to a Duration")
    return -milliseconds if sign == "-" else milliseconds
