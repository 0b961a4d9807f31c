"""Requests with very long arrays, for every API that has an array: the name of the array, and the frame."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from benchmarks.loaders.canned import request_frame
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey
from moldau.wire.protocol.schema import fields_of

TOPIC = "known"
TOPIC_PARTITIONS = 1_000
VALUES = {
    "acks": 1,
    "allow_auto_topic_creation": False,
    "resource_type": 2,
    "timeout_ms": 60_000,
    "num_partitions": 1,
    "replication_factor": 1,
    "mechanism": 1,
    "group_id": "group",
    "generation_id_or_member_epoch": -1,
    "retention_time_ms": -1,
    "member_id": "",
    "replica_id": -1,
    "session_id": 0,
    "current_leader_epoch": -1,
    "cursor": None,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "resource_type_filter": 2,
    "operation": 3,
    "permission_type": 3,
}
"""Values of fields by name that let the handler look further; other fields have their defaults."""
LAST_VERSION_BY_NAME = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.METADATA: 12,
}
"""Later versions name topics by their ids."""

ArrayPath = tuple[str, ...]


hints_of = cache(get_type_hints)
"""By class: resolving type hints takes 100 us."""
wire_fields_of = cache(fields_of)


def element_of(kind: Any) -> Any:
    """The type of an array's elements; None if the field is no array."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return next((get_args(one)[0] for one in (kind, *get_args(kind)) if get_origin(one) is tuple), None)


def arrays_of(cls: type[msgspec.Struct], version: int) -> Iterator[ArrayPath]:
    """Every array of a message, nested ones too, as the names of the fields that lead there."""
    for field in wire_fields_of(cls):
        element = element_of(hints_of(cls)[field.name])
        if element is None or not field.is_present(version):
            continue
        yield (field.name,)
        if isinstance(element, type) and issubclass(element, msgspec.Struct):
            yield from ((field.name, *path) for path in arrays_of(element, version))


class Filling(msgspec.Struct, frozen=True):
    """How a message is filled: its array at `path` has `count` elements, every other array has one."""

    path: ArrayPath
    count: int
    version: int
    is_known: bool

    def message(self, cls: type[msgspec.Struct], place: ArrayPath = (), number: int = 0) -> msgspec.Struct:
        values: dict[str, Any] = {}
        for field in wire_fields_of(cls):
            if field.is_present(self.version):
                here = (*place, field.name)
                value = self._value(hints_of(cls)[field.name], field.name, here, number)
                if value is not None:
                    values[field.name] = value
        return cls(**values)

    def _value(self, kind: Any, name: str, place: ArrayPath, number: int) -> Any:
        if name in VALUES:
            return VALUES[name]
        element = element_of(kind)
        if element is not None:
            if place == self.path:
                return tuple(self._element(element, name, place, each) for each in range(self.count))
            # the outer arrays of the long array have one element; all other arrays are empty
            is_on_the_way = self.path[: len(place)] == place or place[:-1] == self.path or len(place) > len(self.path)
            return (self._element(element, name, place, number),) if is_on_the_way else ()
        return self._element(kind, name, place, number)

    def _element(self, kind: Any, name: str, place: ArrayPath, number: int) -> Any:
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self.message(kind, place, number)
        if kind is str or str in get_args(kind):
            is_topic = self.is_known and any(word in name for word in ("topic", "name"))
            return TOPIC if is_topic else f"absent-{number}"
        is_partition = kind is int and self.is_known and ("partition" in name or "index" in name)
        return number % TOPIC_PARTITIONS if is_partition else 0 if kind is int else None


def requests_of(key: ApiKey, count: int) -> Iterator[tuple[str, bytes]]:
    """Each long request of an API, with the name of its long array."""
    row = API_VERSIONS[key]
    version = LAST_VERSION_BY_NAME.get(key, row.max_version)
    for path in arrays_of(row.request, version):
        for is_known in (False, True):
            message = Filling(path, count, version, is_known).message(row.request)
            label = f"{key.name} {'.'.join(path)} {'known' if is_known else 'absent'}"
            yield label, request_frame(int(key), version, message)
