"""What a converter makes of a schema, made once: bounded caches."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from moldau.connect.data.schema import Schema

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Bounded(Generic[K, T]):
    """A mapping of at most `size` entries; the oldest one leaves."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._made: dict[K, T] = {}

    def get(self, key: K) -> T | None:
        return self._made.get(key)

    def put(self, key: K, made: T) -> T:
        if self._size > 0:
            while len(self._made) >= self._size:
                del self._made[next(iter(self._made))]
            self._made[key] = made
        return made


class SchemaCache(Generic[T]):
    """`make` of each schema. The same object is found by its identity, an equal one by its content."""

    def __init__(self, make: Callable[[Schema], T], size: int) -> None:
        self._make = make
        self._by_object: Bounded[int, tuple[Schema, T]] = Bounded(size)
        self._by_content: Bounded[Hashable, T] = Bounded(size)

    def get(self, schema: Schema) -> T:
        found = self._by_object.get(id(schema))
        if found is not None:  # the entry holds the schema, so no other object has its identity
            return found[1]
        content = _content(schema)
        made = self._by_content.get(content)
        if made is None:
            made = self._by_content.put(content, self._make(schema))
        self._by_object.put(id(schema), (schema, made))
        return made


def _content(schema: Schema) -> Hashable:
    return (
        schema.type,
        schema.optional,
        schema.name,
        schema.version,
        schema.doc,
        tuple(schema.parameters.items()),
        None if schema.default is None else repr(schema.default),
        tuple((field.name, _content(field.schema)) for field in schema.fields),
        None if schema.keys is None else _content(schema.keys),
        None if schema.values is None else _content(schema.values),
    )
