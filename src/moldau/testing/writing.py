"""Records that a test writes without a client: what they are made of, and which partition takes which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.testing.inside import Record, append_records, topic_sizes
from moldau.testing.partitioning import partition_for_key
from moldau.testing.tracebacks import hides

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker
    from moldau.wire.records.builder import RecordTuple
    from moldau.wire.records.record import RecordHeader

__tracebackhide__ = hides


async def write_values(
    broker: Broker,
    topic: str,
    values: Sequence[bytes | None],
    *,
    key: bytes | None,
    headers: tuple[RecordHeader, ...],
    partition: int | None,
    timestamp_ms: int,
) -> list[Record]:
    """One record for each value, in their order; on the broker's loop. A topic that is not there is made, if the broker
    makes topics by itself. `partition` None: the key's, without a key one after the other. Raises KafkaError."""
    if topic.encode() not in broker.partitions.by_name and broker.settings.auto_create_topics_enable:
        await broker.topic_creation.create(topic)
    count = len(await topic_sizes(broker, topic))
    by_partition: dict[int, list[RecordTuple]] = {}
    indexes: list[int] = []
    for number, value in enumerate(values):
        index = partition
        if index is None:
            index = number % count if key is None else partition_for_key(key, count)
        indexes.append(index)
        by_partition.setdefault(index, []).append((key, value, timestamp_ms, headers))
    written = await append_records(broker, topic, list(by_partition.items()))
    of_partition = {index: iter([one for one in written if one.partition == index]) for index in by_partition}
    return [next(of_partition[index]) for index in indexes]


def encoded(value: object) -> bytes | None:
    """Text as UTF-8. Raises TypeError for what no record can hold."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a key or a value is bytes, str or None, not {type(value).__name__}: {value!r:.80}")


def encoded_headers(
    headers: Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | None]],
) -> tuple[RecordHeader, ...]:
    """Headers as pairs of name and bytes; text becomes UTF-8."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((name, encoded(value)) for name, value in pairs)
