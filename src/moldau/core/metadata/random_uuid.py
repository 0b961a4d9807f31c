"""Random uuids as Kafka makes them, for topics, directories, clusters and incarnations."""

from __future__ import annotations

from uuid import UUID

from moldau.ports import Random
from moldau.types import Uuid, uuid_to_text

_RESERVED_BELOW = 100
"""Kafka reserves the first hundred uuids (that of the metadata topic is 1)."""


def random_uuid(random: Random) -> Uuid:
    """A version 4 uuid that is not reserved. Its text does not begin with "-", which would look like a flag."""
    while True:
        uuid = Uuid(UUID(bytes=random.random_bytes(16), version=4).bytes)
        if int.from_bytes(uuid, "big") >= _RESERVED_BELOW and not uuid_to_text(uuid).startswith("-"):
            return uuid
