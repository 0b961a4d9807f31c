"""What a statement that looks may see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from moldau.products.sql.catalog.catalog import Catalog, Relation, View
from moldau.products.sql.engine.answers import QueryStatus
from moldau.products.sql.engine.looking.cluster import ClusterView
from moldau.products.sql.engine.session import Session
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.parser.script import Parsed


class Sight(msgspec.Struct, frozen=True):
    """`statuses`: of all persistent queries, by their ids."""

    catalog: Catalog
    session: Session
    statuses: Mapping[str, QueryStatus]
    cluster: ClusterView
    parsed: Parsed

    def status_of(self, query_id: str) -> QueryStatus:
        """Of a query that the engine does not know yet: as stopped."""
        return self.statuses.get(query_id) or QueryStatus(query=self.catalog.queries[query_id], state="stopped")

    def statuses_of(self, query_ids: Iterable[str]) -> tuple[QueryStatus, ...]:
        return tuple(self.status_of(one) for one in query_ids)

    def names_of(self, keys: Iterable[str]) -> tuple[str, ...]:
        """The names of relations and views, sorted, by their keys in the catalog."""
        known: dict[str, Relation | View] = {**self.catalog.relations, **self.catalog.views}
        return tuple(known[key].name if key in known else key for key in sorted(keys))


def statement_error(parsed: Parsed, problem: str) -> SqlError:
    """An error of the statement as a whole."""
    return SqlError(problem, line=parsed.line, column=parsed.column)
