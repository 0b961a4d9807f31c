"""A service of streaming SQL without Spark: an engine that only keeps the catalog, in this process or in another.

`python -m tests.support.sql_services SERVERS SERVICE_ID` prints its address, and lines about what it does.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from functools import partial

from moldau.cli.services.service import address_of, listen
from moldau.client.protocol.access import ClusterAccess
from moldau.products.service.logins.opened import Opening
from moldau.products.sql.catalog.catalog import Catalog
from moldau.products.sql.catalog.deciding import Change, apply, decide
from moldau.products.sql.catalog.journal import Journal
from moldau.products.sql.engine.answers import Answer, Done, QueryStatus
from moldau.products.sql.engine.session import Session
from moldau.products.sql.language.parser.script import Parsed, parse_script
from moldau.products.sql.serving.served import serve
from moldau.products.sql.serving.service import SqlService


class CatalogEngine:
    """Runs statements that only change the catalog."""

    def __init__(self, journal: Journal, kept: Sequence[Change]) -> None:
        self.catalog = Catalog()
        self.is_closed = False
        self._journal = journal
        self._running = threading.Lock()
        self._keep(kept)

    def execute(self, text: str, session: Session) -> Iterator[Answer]:
        for parsed in parse_script(text, session.variables, self.catalog.types):
            yield self.run(parsed, session)

    def run(self, parsed: Parsed, session: Session) -> Answer:
        with self._running:
            decision = decide(self.catalog, parsed, session.properties)
            self._journal.append(decision.changes)
            self._keep(decision.changes)
        return Done(statement=parsed.text, message=decision.message)

    def statuses(self) -> list[QueryStatus]:
        return [QueryStatus(query=query, state=query.state.value) for query in self.catalog.queries.values()]

    def supervise(self) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True

    def _keep(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.catalog = apply(self.catalog, change)


def main() -> None:
    servers, service_id = sys.argv[1:]
    access = ClusterAccess(servers)
    listening = listen(0)
    address = address_of(listening, Opening())
    print(address, flush=True)
    say = partial(print, flush=True)
    serve(SqlService(access, service_id, address, CatalogEngine, say), listening, access, Opening())
    say("closed")


if __name__ == "__main__":
    main()
