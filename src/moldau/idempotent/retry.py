"""The retry topic and the dead letters of poison records."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from moldau.idempotent.records import (
    ATTEMPT,
    CONSUMER,
    DUE_MS,
    ID,
    OFFSET,
    PARTITION,
    REASON,
    TOPIC,
    Headers,
    Record,
)

REASON_BYTES = 2000
_OWN = {REASON, TOPIC, PARTITION, OFFSET, CONSUMER, ATTEMPT, DUE_MS, ID}


@dataclass(frozen=True)
class RetryTopic:
    """Where records go that a handler fails for: `attempts` times to `topic`, each time for `delay_s`, then to
    `dead_letters`. Both topics exist. `producer`: a Producer of confluent-kafka, a KafkaProducer or an AIOKafkaProducer
    with acks=all."""

    producer: Any
    topic: str
    dead_letters: str
    delay_s: float = 30.0
    attempts: int = 3


@dataclass(frozen=True)
class Origin:
    """Where a record stood first; `id` is None in its own topic."""

    topic: str
    partition: int
    offset: int
    id: bytes | None


def origin_of(record: Record, retry: RetryTopic | None) -> Origin:
    """By the headers of a copy in the retry topic; headers of other topics are not believed."""
    topic = record.header(TOPIC)
    if retry is None or record.topic != retry.topic or topic is None:
        return Origin(record.topic, record.partition, record.offset, None)
    partition, offset = int(record.header(PARTITION) or -1), int(record.header(OFFSET) or -1)
    return Origin(topic.decode(), partition, offset, record.header(ID))


def due_ms(record: Record) -> int:
    """When a copy may be handled; 0 for other records."""
    return int(record.header(DUE_MS) or 0)


def now_ms() -> int:
    """The wall time, which all consumers of a retry topic share."""
    return int(time.time() * 1000)


def reason_text(error: BaseException) -> str:
    """The type and the message of an error, bounded."""
    return f"{type(error).__name__}: {error}".encode()[:REASON_BYTES].decode(errors="ignore").replace("\0", "")


def headers_of_copy(record: Record, origin: Origin, consumer: str, reason: str) -> Headers:
    """The record's own headers, and those that say where it stood and why it failed."""
    kept = tuple(one for one in record.headers if one[0] not in _OWN)
    added = {REASON: reason, TOPIC: origin.topic, PARTITION: origin.partition, OFFSET: origin.offset}
    return kept + tuple((name, str(value).encode()) for name, value in (added | {CONSUMER: consumer}).items())
