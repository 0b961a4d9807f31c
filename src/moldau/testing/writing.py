"""Records that a test writes without a client: their content and their partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from moldau.testing.inside import Record
from moldau.testing.partitioning import partition_for_key
from moldau.testing.tracebacks import hides
from moldau.wire.records.builder import RecordTuple
from moldau.wire.records.record import RecordHeader

__tracebackhide__ = hides


class Planned(msgspec.Struct, frozen=True):
    """The values for each partition: `batches` by partition, and `indexes`, the partition of each value in order."""

    batches: dict[int, list[RecordTuple]]
    indexes: list[int]

    def in_order(self, written: Mapping[int, Sequence[Record]]) -> list[Record]:
        """The written records, by partition, in the order of the values."""
        rest = {index: iter(records) for index, records in written.items()}
        return [next(rest[index]) for index in self.indexes]


def plan_values(
    values: Sequence[bytes | None],
    partitions: Sequence[int],
    *,
    key: bytes | None,
    headers: tuple[RecordHeader, ...],
    partition: int | None,
    timestamp_ms: int,
) -> Planned:
    """One record for each value. `partition` None: the key chooses the partition; without a key the partitions take
    turns."""
    count = len(partitions)
    batches: dict[int, list[RecordTuple]] = {}
    indexes: list[int] = []
    for number, value in enumerate(values):
        index = partition
        if index is None:
            index = number % count if key is None else partition_for_key(key, count)
        indexes.append(index)
        batches.setdefault(index, []).append((key, value, timestamp_ms, headers))
    return Planned(batches, indexes)


def encoded(value: object) -> bytes | None:
    """Text as UTF-8. Raises TypeError for a value that a record cannot hold."""
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
