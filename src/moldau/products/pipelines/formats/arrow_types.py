"""Compiles a schema to Arrow types. Each format gives the shape of its schema, and builds its parts only when they are
needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Union

import msgspec

from moldau.products.pipelines.core.failures import FlowError

if TYPE_CHECKING:
    import pyarrow as pa


class Record(msgspec.Struct, frozen=True):
    """`name`: of a record that other parts can refer to, for people; "" for a record that cannot contain itself."""

    name: str
    fields: Iterable[tuple[str, Part]]


class Listed(msgspec.Struct, frozen=True):
    item: Part


class Mapped(msgspec.Struct, frozen=True):
    """`key`: None for text keys."""

    value: Part
    key: Part | None = None


Shape = Union[Record, Listed, Mapped, "pa.DataType"]
Part = Callable[[], Shape]


def struct_of(record: Record) -> pa.StructType:
    """Raises FlowError for a record that contains itself."""
    return _struct(record, ())


def _struct(record: Record, around: tuple[str, ...]) -> pa.StructType:
    import pyarrow as pa

    if record.name in around:
        raise FlowError(f"{record.name} holds itself, which no column can")
    inside = (*around, record.name) if record.name else around
    return pa.struct([pa.field(name, _type(part(), inside)) for name, part in record.fields])


def _type(shape: Shape, around: tuple[str, ...]) -> pa.DataType:
    import pyarrow as pa

    if isinstance(shape, Record):
        return _struct(shape, around)
    if isinstance(shape, Listed):
        return pa.list_(_type(shape.item(), around))
    if isinstance(shape, Mapped):
        key = pa.string() if shape.key is None else _type(shape.key(), around)
        return pa.map_(key, _type(shape.value(), around))
    return shape
