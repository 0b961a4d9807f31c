"""A service of statements without Spark and without a broker: the catalog, and listed rows. As a program, its shell."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from moldau.errors import MoldauError
from moldau.products.sql.catalog.catalog import Catalog
from moldau.products.sql.catalog.deciding import apply, decide, decides
from moldau.products.sql.catalog.reads import relations_read
from moldau.products.sql.engine.answers import Answer, ChangedRow, Done, Rows
from moldau.products.sql.engine.looking.cluster import Topic
from moldau.products.sql.engine.looking.looking import look, only_looks
from moldau.products.sql.engine.session import Session
from moldau.products.sql.language.parser.script import Parsed
from moldau.products.sql.language.statements import RunQuery
from moldau.products.sql.terminal.answers import Printer
from moldau.products.sql.terminal.shell import Shell
from moldau.products.sql.terminal.statements import run_text
from tests.support.row_streams import ListedRows

COLUMNS = (("user", "string"), ("n", "bigint"))


class ListedService:
    """A SqlService. A SELECT gives the rows of ann, then none, and does not end; of a table, with a key."""

    def __init__(self, *statements: str) -> None:
        self.catalog = Catalog()
        self.ran: list[str] = []
        run_text("; ".join(statements), self, Session(), lambda answer: None)

    def run(self, parsed: Parsed, session: Session) -> Answer:
        self.ran.append(parsed.text)
        if decides(parsed.statement):
            decision = decide(self.catalog, parsed, session.properties)
            for change in decision.changes:
                self.catalog = apply(self.catalog, change)
            return Done(message=decision.message)
        if only_looks(parsed.statement):
            return look(self.catalog, session, (), _NoCluster(), parsed)
        if isinstance(parsed.statement, RunQuery):
            (name,) = relations_read(parsed.statement.query)
            kind = self.catalog.relations[name.key].kind.value
            rows = [ChangedRow(("ann", number)) for number in (1, 2)]
            stream = ListedRows(COLUMNS, [[row] for row in rows], key=("user",) * (kind == "table"), is_endless=True)
            return Rows(stream=stream, is_live=True)
        return Done(message=parsed.text)


class _NoCluster:
    def topics(self) -> Mapping[str, Topic]:
        raise MoldauError("no broker answers")

    def settings(self, topic: str) -> Mapping[str, str]:
        return {}

    def ranges(self, topics: Sequence[Topic]) -> Mapping[str, Sequence[tuple[int, int]]]:
        return {}

    def has_schema(self, subject: str | None, schema_id: int | None) -> bool:
        return False

    def monotonic_ms(self) -> int:
        return 0

    def pause(self, length_ms: int) -> None: ...


if __name__ == "__main__":
    console = Console()
    service = ListedService()
    shell = Shell(
        service,
        lambda is_cut: Printer(console, is_cut=is_cut),
        Path(sys.argv[1]),
        lambda: f"{len(service.catalog.queries)} persistent queries",
    )
    shell.run()
