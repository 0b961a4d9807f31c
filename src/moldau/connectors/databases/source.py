"""Reads new rows of a table or a query, again and again.

The place is {"timestamp": "...", "incrementing": 5}, with what the mode needs; {} before the first row. That of the
mode bulk is the number of loads, {"loads": 3}. Rows with a null in the columns of the mode are not read. A row is found
once its transaction is committed: one that commits a smaller number, or an earlier time, than a row that was read
before is missed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql.datasource import SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import DataType, StructType

from moldau.connect.configuration import ConfigError, parse
from moldau.connect.contract.shared_settings import POLL_INTERVAL
from moldau.connectors.databases.dialect import DatabaseError
from moldau.connectors.databases.settings import BULK, SOURCE
from moldau.connectors.databases.statements import Placeholder, path_of, quoted

DEFAULT_ROWS = 10_000
"""Of one read, where the runner gives no limit (Spark)."""
BULK_POLL_MS = 5_000
"""Between two loads, unless `poll.interval.ms` is given: the default of JDBC connectors."""
LOADS = "loads"
ROWS = "moldau_rows"
"""The name of the table or the query in a statement. Each column has it in front: SQLite takes a quoted name that is no
column for a text."""

Place = dict[str, Any]
Bound = Sequence[object]
"""The values of the columns of the mode, in their order."""


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """`columns`: of the mode, by the word in the place; none: each load has all rows. `table` empty: a query."""

    columns: Mapping[str, str]
    table: tuple[str, ...]
    query: str
    load_every_s: float = 0.0

    @property
    def relation(self) -> str:
        """What stands after FROM. The query is text of the person who configures the connector."""
        return f"{path_of(self.table) if self.table else f'({self.query})'} AS {ROWS}"


class SourceDatabase(Protocol):
    """It is copied to other processes, so it holds no connection."""

    def placeholder(self, place: int) -> str: ...

    def row_type(self, settings: SourceSettings) -> StructType:
        """The columns of the rows. Raises DatabaseError, RetriableError."""

    def column(self, name: str, kind: DataType) -> str:
        """A column in the list of a SELECT. `name`: quoted."""

    def read(self, sql: str, values: Bound) -> list[tuple[Any, ...]]:
        """Raises DatabaseError, RetriableError."""

    def row(self, values: tuple[Any, ...], schema: StructType) -> tuple[Any, ...]:
        """The values as the schema has them."""

    def told(self, value: object) -> object:
        """A value of a place, as JSON has it. The database takes it back as a parameter."""


def source_settings(config: Mapping[str, str | None]) -> SourceSettings:
    """Raises ConfigError, also for settings that contradict each other."""
    values = parse(SOURCE, config)
    mode, query = str(values["mode"]), str(values["query"])
    given = values["table.whitelist"]
    tables = [str(one) for one in given] if isinstance(given, list) else []
    errors: dict[str, list[str]] = {}
    if not mode:
        errors["mode"] = ["A source needs mode: bulk, incrementing, timestamp or timestamp+incrementing"]
    if bool(query) == bool(tables) or len(tables) > 1:
        errors["table.whitelist"] = ["A source reads one table (table.whitelist), or a query"]
    columns = {word: str(values[f"{word}.column.name"]) for word in ("timestamp", "incrementing") if word in mode}
    for word, column in columns.items():
        if not column:
            errors[f"{word}.column.name"] = [f"mode={mode} needs {word}.column.name"]
    if errors:
        raise ConfigError(errors)
    every_ms = int(config.get(POLL_INTERVAL) or BULK_POLL_MS) if mode == BULK else 0
    return SourceSettings(columns, tuple(tables[0].split(".")) if tables else (), query, every_ms / 1000)


class DatabaseReader(SimpleDataSourceStreamReader):
    def __init__(self, database: SourceDatabase, settings: SourceSettings, schema: StructType) -> None:
        self._database = database
        self._settings = settings
        self._schema = schema
        self._next_load_s = 0.0
        lacking = [name for name in settings.columns.values() if name not in schema.names]
        if lacking:
            raise DatabaseError(f"There is no column {', '.join(lacking)}, only {', '.join(schema.names)}")

    def initialOffset(self) -> Place:  # noqa: N802
        return {}

    def read(self, start: Place, limit: ReadMaxRows | None = None) -> tuple[Iterator[tuple[Any, ...]], Place]:
        """Rows with the time of the last one are read with it, also above the limit: nothing else tells them apart. A
        load of the mode bulk has no limit."""
        if not self._settings.columns:
            return self._load(start)
        most = DEFAULT_ROWS if limit is None else limit.max_rows
        end = self._last_of(start, most)
        if end is None:
            return iter(()), start
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: Place, end: Place) -> Iterator[tuple[Any, ...]]:  # noqa: N802
        """In the mode bulk, the rows that are there now."""
        names = ", ".join(self._database.column(_column(one.name), one.dataType) for one in self._schema.fields)
        sql, values = f"SELECT {names} FROM {self._settings.relation}", list[object]()
        if self._settings.columns:
            condition, values = self._between(start, end)
            sql += f" WHERE {condition} ORDER BY {self._order()}"
        # an iterator of a list, which Spark can copy
        return iter([self._database.row(row, self._schema) for row in self._database.read(sql, values)])

    def _load(self, start: Place) -> tuple[Iterator[tuple[Any, ...]], Place]:
        now_s = time.monotonic()
        if now_s < self._next_load_s:
            return iter(()), start
        self._next_load_s = now_s + self._settings.load_every_s
        end = {LOADS: start.get(LOADS, 0) + 1}
        return self.readBetweenOffsets(start, end), end

    def _last_of(self, start: Place, most: int) -> Place | None:
        """The place of the last of the next rows."""
        names = ", ".join(map(_column, self._settings.columns.values()))
        condition, values = self._between(start, {})
        inner = f"SELECT {names} FROM {self._settings.relation} WHERE {condition} ORDER BY {self._order()} LIMIT {most}"
        turned = self._order(" DESC")
        found = self._database.read(f"SELECT * FROM ({inner}) AS {ROWS} ORDER BY {turned} LIMIT 1", values)
        if not found:
            return None
        told = [self._database.told(value) for value in found[0]]
        return dict(zip(self._settings.columns, told, strict=True))

    def _order(self, direction: str = "") -> str:
        return ", ".join(_column(name) + direction for name in self._settings.columns.values())

    def _between(self, start: Place, end: Place) -> tuple[str, list[object]]:
        """The condition for rows after `start`, up to `end`."""
        columns = list(self._settings.columns.values())
        parts = [f"{_column(name)} IS NOT NULL" for name in columns]
        values: list[object] = []
        for place, sign in ((start, ">"), (end, "<=")):
            if place:
                parts.append(_comparison(columns, sign, len(values) + 1, self._database.placeholder))
                values += [place[word] for word in self._settings.columns]
        return " AND ".join(parts), values


def _comparison(columns: Sequence[str], sign: str, first: int, mark: Placeholder) -> str:
    """Compares the columns, as a tuple, with the values from the place `first`."""
    marks = ", ".join(mark(first + place) for place in range(len(columns)))
    if len(columns) == 1:
        return f"{_column(columns[0])} {sign} {marks}"
    return f"({', '.join(map(_column, columns))}) {sign} ({marks})"


def _column(name: str) -> str:
    return f"{ROWS}.{quoted(name)}"
