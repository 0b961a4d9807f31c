"""What a SQL service tells of its streams, tables and queries, in the objects of its HTTP interface."""

from __future__ import annotations

import msgspec


class Figures(msgspec.Struct, frozen=True, rename="camel"):
    """How a query runs. `lag`: None if unknown. `error`: the last one."""

    state: str
    records_read: int
    records_per_second: float
    lag: int | None
    batches: int
    error: str | None
    reads: tuple[str, ...] = ()


class SqlQuery(msgspec.Struct, frozen=True):
    """`sinks`: the names of what it writes."""

    id: str
    sinks: tuple[str, ...]
    moldau: Figures


class SqlSource(msgspec.Struct, frozen=True, rename="camel"):
    """A stream or table. `type`: STREAM or TABLE."""

    name: str
    type: str
    topic: str
    key_format: str
    value_format: str


class SqlLists(msgspec.Struct, frozen=True):
    streams: tuple[SqlSource, ...] = ()
    tables: tuple[SqlSource, ...] = ()
    queries: tuple[SqlQuery, ...] = ()

    @property
    def relations(self) -> tuple[SqlSource, ...]:
        return (*self.streams, *self.tables)


class QueryDescription(msgspec.Struct, frozen=True, rename="camel"):
    """`topology`: the steps, one a line; `execution_plan`: Spark's."""

    id: str
    statement_text: str
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    topology: str
    execution_plan: str
    moldau: Figures
