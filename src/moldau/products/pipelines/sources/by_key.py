"""The base of database sources: rows in the order of one column, each read once.

The column `by` holds either unique keys that grow with every new row, such as the numbers of a sequence, or times,
which rows may share. A row is read once: later changes of it, and later rows with a smaller key, are not seen. Rows
without a key are never read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.errors import MoldauError
from moldau.products.pipelines.core.keys import Interval, Text
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.sources.feed_source import FeedSource
from moldau.products.pipelines.sources.source import MAX_RECORDS, CommonKeys

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_A_TIME = 10_000
BY = Text("by", "The column in whose order rows are read.", absent="required, but not with `as: table`")
DELAY = Interval("delay", "For a `by` that is a time: younger rows wait.", default_ms=10_000)

Key = int | float | str | None
Span = tuple[Key, Key]
"""Rows after the first key, up to and including the second; None: no bound."""


class DatabaseSourceError(MoldauError):
    """The table cannot be read; the message says why."""


class ByKey(CommonKeys):
    by: str | None
    max_records: int | None


class ByKeySource(FeedSource, frozen=True, kw_only=True):
    """`by`: the column; None for a table to join with. `max_records`: per micro-batch."""

    table: str
    by: str | None = None
    max_records: int | None = None

    @classmethod
    def parse_by(cls, source: Section) -> ByKey:
        """The keys about the column, and those of all sources. Raises SpecError."""
        common = cls.parse_common(source)
        for key in (BY, DELAY):
            if common["as_table"] and source.has(key):
                source.refuse(key, "has no meaning for a table, which is read as it is")
        by = None if common["as_table"] else BY.of(source)
        return {**common, "by": by, "max_records": cls.parse_limit(source, MAX_RECORDS)}


class ByKeyFeed:
    """A place is a key: all rows up to and including it are read. None: none are."""

    def __init__(self, columns: pa.Schema, max_records: int | None) -> None:
        self.columns = columns
        self._max_records = max_records

    def beginning(self) -> Mapping[str, Key]:
        return {"after": None}

    def end(self, after: Mapping[str, Key]) -> Mapping[str, Key]:
        newest = self._newest(after["after"])
        return after if newest is None else {"after": newest}

    def step(self, after: Mapping[str, Key], end: Mapping[str, Key]) -> Mapping[str, Key]:
        last = self._key_of_row(self._max_records or MAX_RECORDS.number, (after["after"], end["after"]))
        return end if last is None else {"after": last}

    def parts(self, after: Mapping[str, Key], end: Mapping[str, Key]) -> Sequence[Span]:
        return [] if after == end else [(after["after"], end["after"])]

    def whole(self) -> Sequence[Span]:
        return [(None, None)]

    def read(self, part: Span) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for rows in self._rows(part):
            columns = zip(self.columns, zip(*rows, strict=True), strict=True)
            yield pa.RecordBatch.from_arrays([_array(field, values) for field, values in columns], schema=self.columns)

    @abstractmethod
    def _newest(self, after: Key) -> Key:
        """The newest key after `after` that no row can come before any more; None without one."""

    @abstractmethod
    def _key_of_row(self, number: int, span: Span) -> Key:
        """The key of row `number` of the span, counted from 1; None if the span has fewer rows."""

    @abstractmethod
    def _rows(self, span: Span) -> Iterator[Sequence[tuple[object, ...]]]:
        """Yields the rows in chunks, none of them empty."""


def _array(field: pa.Field, values: Sequence[object]) -> pa.Array:
    """Raises DatabaseSourceError for the first value that is not of the column's type."""
    import pyarrow as pa

    try:
        if pa.types.is_integer(field.type):  # Arrow turns 1.5 into 1
            _refuse_fractions(field, values)
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError):
        for value in values:
            try:
                pa.scalar(value, field.type)
            except (pa.ArrowException, TypeError, ValueError) as error:
                reason = f"the column {field.name!r} has {value!r}, which is not {field.type}"
                raise DatabaseSourceError(reason) from error
        raise


def _refuse_fractions(field: pa.Field, values: Sequence[object]) -> None:
    for value in values:
        if isinstance(value, float) and not value.is_integer():
            raise DatabaseSourceError(f"the column {field.name!r} has {value!r}, which is not {field.type}")


def bounds(column: str, span: Span, mark: str) -> tuple[str, list[Key]]:
    """A SQL condition, and the values of its placeholders. `mark`: the form of a placeholder, with `{}` for its
    number."""
    after, end = span
    if end is None:
        return "true", []
    if after is None:
        return f"{column} <= {mark.format(1)}", [end]
    return f"{column} > {mark.format(1)} and {column} <= {mark.format(2)}", [after, end]
