"""The protocol of converters (org.apache.kafka.connect.storage.Converter and HeaderConverter)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import ClassVar

from moldau.connect.configuration import Setting
from moldau.connect.data.schema import Schema
from moldau.connect.handling import stages
from moldau.errors import MoldauError

Headers = Sequence[tuple[str, bytes | None]]
"""The headers of a record as they are stored."""
Converted = tuple[Schema | None, object]
"""A schema and a value. Schema None: the value has no schema."""


class Role(StrEnum):
    """What a converter converts (ConverterType). The value is Kafka's word in `converter.type`."""

    KEY = "key"
    VALUE = "value"
    HEADER = "header"


class DataError(MoldauError):
    """A value or bytes that a converter rejects (DataException)."""


class RetriableError(DataError, stages.RetriableError):
    """A conversion that may succeed later: the server of the schemas does not answer (RetriableException)."""


class Converter:
    """Converts the key, the value or a header of a record. A subclass gives `from_value` and `to_value`.

    `values`: the typed values of `settings` by name (`moldau.connect.configuration.parse`). One thread uses it.
    """

    settings: ClassVar[tuple[Setting, ...]] = ()

    def __init__(self, values: Mapping[str, object], role: Role) -> None:
        self.role = role

    def from_value(self, topic: str, headers: Headers, schema: Schema | None, value: object) -> bytes | None:
        """The bytes of a key or value for this topic; None is a null. Raises DataError."""
        raise DataError(f"{type(self).__name__} converts headers only")

    def to_value(self, topic: str, headers: Headers, payload: bytes | None) -> Converted:
        """The schema and the value of a key or value of this topic. Raises DataError."""
        raise DataError(f"{type(self).__name__} converts headers only")

    def from_header(self, topic: str, name: str, schema: Schema | None, value: object) -> bytes | None:
        """The bytes of a header. Raises DataError."""
        return self.from_value(topic, (), schema, value)

    def to_header(self, topic: str, name: str, payload: bytes | None) -> Converted:
        """The schema and the value of a header. Raises DataError."""
        return self.to_value(topic, (), payload)

    def close(self) -> None:
        """Releases connections. The converter is not used afterwards."""
