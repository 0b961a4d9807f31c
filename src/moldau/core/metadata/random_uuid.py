"""Random uuids as Kafka makes them: for topics, directories, clusters and incarnations."""

from __future__ import annotations

from moldau.ports import Random
from moldau.types import Uuid, uuid_to_text

_RESERVED_BELOW = 100
"""Kafka keeps the first hundred uuids for itself (the metadata topic's is 1)."""


def random_uuid(random: Random) -> Uuid:
    """A version 4 uuid that is not reserved and whose text does not begin with "-": it would look like a flag."""
    while True:
        raw = bytearray(random.random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        uuid = Uuid(bytes(raw))
        if int.from_bytes(uuid, "big") >= _RESERVED_BELOW and not uuid_to_text(uuid).startswith("-"):
            return uuid
