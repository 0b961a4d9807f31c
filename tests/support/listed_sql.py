"""SQL without Spark and without a cluster: real statements and a real catalog, and rows from lists."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from moldau.errors import MoldauError
from moldau.products.sql.catalog.catalog import Catalog
from moldau.products.sql.catalog.deciding import RowsWritten, apply, decide
from moldau.products.sql.engine.answers import Answer, ChangedRow, Done, Explained, QueryStatus, Rows
from moldau.products.sql.engine.looking.cluster import Topic
from moldau.products.sql.engine.looking.looking import look, only_looks
from moldau.products.sql.engine.session import Session
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.parser.script import Parsed
from moldau.products.sql.language.statements import Explain, Print, RunQuery


class ListedRows:
    """Rows that were put in. `is_live`: it waits for more until `end`."""

    key: tuple[str, ...] = ()

    def __init__(
        self, columns: Sequence[tuple[str, str]], rows: Iterable[ChangedRow] = (), *, is_live: bool = False
    ) -> None:
        self.columns = tuple(columns)
        self.query_id = ""
        self.is_closed = threading.Event()
        self.rows_read = 0
        self._waiting = deque(rows)
        self._is_live = is_live
        self._error: MoldauError | None = None
        self._changed = threading.Condition()

    def put(self, *rows: ChangedRow) -> None:
        with self._changed:
            self._waiting.extend(rows)
            self._changed.notify_all()

    def fail(self, error: MoldauError) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self._is_live = False
            self._changed.notify_all()

    def read(self, most: int, timeout_s: float) -> Sequence[ChangedRow]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._error or not self._is_live, timeout_s)
            if self._error is not None:
                raise self._error
            found = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            self.rows_read += len(found)
            return found

    @property
    def is_over(self) -> bool:
        return not self._is_live and not self._waiting and self._error is None

    def close(self) -> None:
        self.is_closed.set()


class ListedTopics:
    """A cluster of which only the names of topics are known."""

    def topics(self) -> Mapping[str, Topic]:
        return {"orders": Topic("orders", 3, 1), "users": Topic("users", 1, 2)}

    def settings(self, topic: str) -> Mapping[str, str]:
        return {"cleanup.policy": "compact"}

    def ranges(self, topics: Sequence[Topic]) -> Mapping[str, Sequence[tuple[int, int]]]:
        return {one.name: [(0, 1_000)] * one.partitions for one in topics}

    def has_schema(self, subject: str | None, schema_id: int | None) -> bool:
        return subject == "orders-value"

    def monotonic_ms(self) -> int:
        return 0

    def pause(self, length_ms: int) -> None:
        pass


class ListedSql:
    """Runs statements. `rows`: of SELECT, by the name after FROM; `states`: of queries, by their ids, "running" for
    others. `inserted`: the texts of the rows of INSERT."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.rows: dict[str, ListedRows] = {}
        self.states: dict[str, QueryStatus] = {}
        self.inserted: list[list[str]] = []
        self.explained = Explained()
        self._number = 0

    def run(self, parsed: Parsed, session: Session) -> Answer:
        statement = parsed.statement
        if only_looks(statement):
            return look(self.catalog, session, self.statuses(), ListedTopics(), parsed)
        if isinstance(statement, Explain):
            return msgspec.structs.replace(self.explained, statement=parsed.text)
        if isinstance(statement, RunQuery):
            relation = statement.query.selects[0].relation
            return self._rows(parsed, "" if relation is None or relation.name is None else relation.name.key)
        if isinstance(statement, Print):
            return self._rows(parsed, statement.topic.key)
        decision = decide(self.catalog, parsed, session.properties)
        for one in decision.outside:
            if isinstance(one, RowsWritten):
                self.inserted += [[value.text for value in row] for row in one.insert.rows]
        before = set(self.catalog.queries)
        for change in decision.changes:
            self.catalog = apply(self.catalog, change)
        started = sorted(set(self.catalog.queries) - before)
        return Done(statement=parsed.text, message=decision.message, query_id=started[0] if started else None)

    def statuses(self) -> list[QueryStatus]:
        return [
            msgspec.structs.replace(self.states.get(id, QueryStatus(query=query, state="running")), query=query)
            for id, query in self.catalog.queries.items()
        ]

    def _rows(self, parsed: Parsed, name: str) -> Rows:
        found = self.rows.get(name)
        if found is None:
            raise SqlError(f"there is no stream {name}", line=parsed.line, column=parsed.column)
        self._number += 1
        found.query_id = f"transient_{self._number}"
        return Rows(statement=parsed.text, stream=found, is_live=not found.is_over)
