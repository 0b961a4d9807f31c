"""What a statement answers, as values. The terminal, HTTP and the web console each have their own form for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from moldau.products.sql.catalog.catalog import PersistentQuery, Relation


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """`statement`: its text. `warnings`: sentences, each with its place."""

    statement: str = ""
    warnings: tuple[str, ...] = ()


class Done(Answer, frozen=True, kw_only=True):
    """Something was changed or written. `message`: a sentence. `query_id`: of the query that it started."""

    message: str
    query_id: str | None = None


class Listing(Answer, frozen=True, kw_only=True):
    """Of SHOW: `subject` is its word ("streams", "queries"...). `items`: what it lists, for doors that tell the fields
    apart; `columns` and `rows`: the same as texts, for people."""

    subject: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    items: tuple[object, ...] = ()


class QueryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A persistent query and how it runs. `state`: "starting", "running", "paused", "retrying", "failed", "stopped".
    `records_read`, `lag` (None: unknown), `batch_ms`: of the last batch. `error`: the last one, with its record.
    `node`: of the instance that runs it."""

    query: PersistentQuery
    state: str
    records_read: int = 0
    batches: int = 0
    lag: int | None = None
    batch_ms: int = 0
    records_per_second: float = 0.0
    dead_letters: int | None = None
    state_rows: int | None = None
    error: str | None = None


class Described(Answer, frozen=True, kw_only=True):
    """Of DESCRIBE. `readers`, `writers`: the queries. `topic`: facts about it, with EXTENDED only, in words."""

    relation: Relation
    readers: tuple[QueryStatus, ...] = ()
    writers: tuple[QueryStatus, ...] = ()
    topic: tuple[tuple[str, str], ...] = ()


class Explained(Answer, frozen=True, kw_only=True):
    """Of EXPLAIN. `query`: of a running query. `reads`: names of relations. `columns`: names and Spark types of the
    result, `key`: those that are its key. `steps`: what happens to the rows, a sentence each, as the picture shows it.
    `text`: the query in Spark SQL. `rewrites`: sentences. `plan`: Spark's own."""

    query: QueryStatus | None = None
    reads: tuple[str, ...] = ()
    writes: str | None = None
    columns: tuple[tuple[str, str], ...] = ()
    key: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    text: str = ""
    rewrites: tuple[str, ...] = ()
    plan: str = ""


class FunctionDescribed(Answer, frozen=True, kw_only=True):
    """Of DESCRIBE FUNCTION. `template`: how it is written in Spark SQL."""

    name: str
    usage: str
    template: str = ""
    note: str = ""


class ChangedRow(msgspec.Struct, frozen=True):
    """`values`: in the order of the columns, as Python values of Spark (`None`, `int`, `str`, `Decimal`, `datetime` in
    UTC, `bytes`, `list`, `dict`). `is_deleted`: the row of this key is gone."""

    values: tuple[object, ...]
    is_deleted: bool = False


class RowStream(Protocol):
    """The rows of a SELECT or PRINT as they come. Close it, or it is closed when nobody has read for long."""

    columns: tuple[tuple[str, str], ...]
    """Names and Spark types."""
    key: tuple[str, ...]
    """The columns of the key if a row replaces the one before with its key, as of a table; otherwise ()."""
    query_id: str

    def read(self, most: int, timeout_s: float) -> Sequence[ChangedRow]:
        """The next rows, at most `most`; waits for the first one, at most so long. Raises MoldauError if the query has
        failed."""

    @property
    def is_over(self) -> bool:
        """Whether no more rows come, and all were read."""

    def close(self) -> None: ...


class Rows(Answer, frozen=True, kw_only=True):
    """Of SELECT and PRINT. `is_live`: it does not end by itself."""

    stream: RowStream
    is_live: bool = False
