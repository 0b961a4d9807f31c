"""A record between a connector and a topic, as in Kafka Connect (SourceRecord, SinkRecord)."""

from __future__ import annotations

from dataclasses import dataclass

from moldau.connect.data.schema import Schema


@dataclass(frozen=True, slots=True)
class Header:
    """`schema` None: the value has no schema."""

    key: str
    schema: Schema | None
    value: object


@dataclass(frozen=True, slots=True)
class Record:
    """One record. It is never changed: a transform makes a new one (dataclasses.replace).

    `key_schema` and `value_schema` None: without a schema (maps are then dict, as in Kafka Connect). A value None is a
    tombstone. `partition` None: the producer chooses. `timestamp_ms` None: the time of sending. `offset` and
    `original_topic`, `original_partition` (KIP-793) are those of the topic a sink reads; None for a source.
    """

    topic: str
    value: object
    value_schema: Schema | None = None
    key: object = None
    key_schema: Schema | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[Header, ...] = ()
    offset: int | None = None
    original_topic: str | None = None
    original_partition: int | None = None
