"""The offsets of connectors, folded from the topic of offsets in Kafka Connect's form.

A key is `["NAME",{...}]` with the source's partition, and a value `{...}` with its offset, both JSON without spaces.
"""

from __future__ import annotations

from typing import Any

import msgspec

from moldau.products.connect.core.configs import Record

Place = dict[str, Any]
"""A partition of a source, or an offset in it."""


BATCH, RANGES = "batch", "ranges"
"""Of the batch that a slot of a sink has noted."""


class OffsetState:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[bytes, tuple[Place, Place]]] = {}

    def apply(self, key: bytes, value: bytes | None) -> None:
        """A record that cannot be read is passed over."""
        try:
            name, partition = msgspec.json.decode(key, type=tuple[str, Place])
            held = self._offsets.setdefault(name, {})
            if value is None:
                held.pop(key, None)
            else:
                held[key] = partition, msgspec.json.decode(value, type=Place)
        except msgspec.DecodeError:
            return

    def of(self, name: str) -> list[tuple[Place, Place]]:
        """Partition and offset, in the order in which the partitions came."""
        return list(self._offsets.get(name, {}).values())


def without_ranges(held: Place) -> Place:
    """What a slot of a sink keeps when its offsets change. The target may have the last batch under its number."""
    return {**held, BATCH: held[BATCH] + bool(held[RANGES]), RANGES: {}}


def offset_record(name: str, partition: Place, offset: Place | None) -> Record:
    """None deletes the offset."""
    key = msgspec.json.encode([name, partition])
    return key, None if offset is None else msgspec.json.encode(offset)
