"""Reads new rows of a table or a query, again and again.

The place is {"timestamp": "...", "incrementing": 5}, with what the mode needs; {} before the first row. Rows with a
null in these columns are not read. A row is found once its transaction is committed: one that commits a smaller number,
or an earlier time, than a row that was read before is missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql.datasource import SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from moldau.connect.configuration import ConfigError, parse
from moldau.connectors.databases.dialect import DatabaseError
from moldau.connectors.databases.settings import SOURCE
from moldau.connectors.databases.statements import Placeholder, path_of, quoted

DEFAULT_ROWS = 10_000
"""Of one read, where the runner gives no limit (Spark)."""

Place = dict[str, Any]
Bound = Sequence[object]
"""The values of the columns of the mode, in their order."""


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """`columns`: of the mode, by the word in the place. `table` empty: a query."""

    columns: Mapping[str, str]
    table: tuple[str, ...]
    query: str

    @property
    def relation(self) -> str:
        """What stands after FROM. The query is text of the person who configures the connector."""
        return path_of(self.table) if self.table else f"({self.query}) AS moldau_query"


class SourceDatabase(Protocol):
    """It is copied to other processes, so it holds no connection."""

    def placeholder(self, place: int) -> str: ...

    def row_type(self, settings: SourceSettings) -> StructType:
        """The columns of the rows. Raises DatabaseError, RetriableError."""

    def column(self, name: str, schema: StructType) -> str:
        """A column in the list of a SELECT."""

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
        errors["mode"] = ["A source needs mode: incrementing, timestamp or timestamp+incrementing"]
    if bool(query) == bool(tables) or len(tables) > 1:
        errors["table.whitelist"] = ["A source reads one table (table.whitelist), or a query"]
    columns = {word: str(values[f"{word}.column.name"]) for word in ("timestamp", "incrementing") if word in mode}
    for word, column in columns.items():
        if not column:
            errors[f"{word}.column.name"] = [f"mode={mode} needs {word}.column.name"]
    if errors:
        raise ConfigError(errors)
    return SourceSettings(columns, tuple(tables[0].split(".")) if tables else (), query)


class DatabaseReader(SimpleDataSourceStreamReader):
    def __init__(self, database: SourceDatabase, settings: SourceSettings, schema: StructType) -> None:
        self._database = database
        self._settings = settings
        self._schema = schema
        lacking = [name for name in settings.columns.values() if name not in schema.names]
        if lacking:
            raise DatabaseError(f"There is no column {', '.join(lacking)}, only {', '.join(schema.names)}")

    def initialOffset(self) -> Place:  # noqa: N802
        return {}

    def read(self, start: Place, limit: ReadMaxRows | None = None) -> tuple[Iterator[tuple[Any, ...]], Place]:
        """Rows with the time of the last one are read with it, also above the limit: nothing else tells them apart."""
        most = DEFAULT_ROWS if limit is None else limit.max_rows
        end = self._last_of(start, most)
        if end is None:
            return iter(()), start
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: Place, end: Place) -> Iterator[tuple[Any, ...]]:  # noqa: N802
        names = ", ".join(self._database.column(name, self._schema) for name in self._schema.names)
        condition, values = self._between(start, end)
        sql = f"SELECT {names} FROM {self._settings.relation} WHERE {condition} ORDER BY {self._order()}"
        # an iterator of a list, which Spark can copy
        return iter([self._database.row(row, self._schema) for row in self._database.read(sql, values)])

    def _last_of(self, start: Place, most: int) -> Place | None:
        """The place of the last of the next rows."""
        names = ", ".join(quoted(name) for name in self._settings.columns.values())
        condition, values = self._between(start, {})
        inner = f"SELECT {names} FROM {self._settings.relation} WHERE {condition} ORDER BY {self._order()} LIMIT {most}"
        turned = self._order(" DESC")
        found = self._database.read(f"SELECT * FROM ({inner}) AS moldau_rows ORDER BY {turned} LIMIT 1", values)
        if not found:
            return None
        told = [self._database.told(value) for value in found[0]]
        return dict(zip(self._settings.columns, told, strict=True))

    def _order(self, direction: str = "") -> str:
        return ", ".join(quoted(name) + direction for name in self._settings.columns.values())

    def _between(self, start: Place, end: Place) -> tuple[str, list[object]]:
        """The condition for rows after `start`, up to `end`."""
        columns = list(self._settings.columns.values())
        parts = [f"{quoted(name)} IS NOT NULL" for name in columns]
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
        return f"{quoted(columns[0])} {sign} {marks}"
    return f"({', '.join(map(quoted, columns))}) {sign} ({marks})"
