"""The relations of FROM, and their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from moldau.products.pipelines.core.statement import quoted
from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.compiling.composed import Composed
from moldau.products.sql.language.queries import Fragment
from moldau.products.sql.language.statements import Kind, Role
from moldau.products.sql.language.tokens import Token
from moldau.products.sql.records.layout import ROW_OFFSET, ROW_PARTITION, ROW_TIME

OWN_COLUMNS: Mapping[str, str] = {name: name for name in (ROW_TIME, ROW_PARTITION, ROW_OFFSET)}
"""ksqlDB's own columns, by the names that they have here."""


class Source(msgspec.Struct, frozen=True):
    """One relation of FROM or JOIN. `called`: the name that its columns are qualified with. `sql`: what stands after
    FROM: a view of Spark, or a query in parentheses. `relation`: None for a view or a query in parentheses. `columns`:
    their names; None if only Spark knows them. `view_key`: of a view, the names of its key columns."""

    called: str
    sql: str | Composed
    relation: Relation | None = None
    columns: tuple[str, ...] | None = None
    view_key: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        return self.relation is not None and self.relation.kind is Kind.TABLE

    @property
    def key(self) -> tuple[str, ...]:
        """The names of its key columns."""
        if self.relation is None:
            return self.view_key
        columns = self.relation.columns or ()
        return tuple(one.name.text for one in columns if one.role in (Role.KEY, Role.PRIMARY_KEY))

    def column(self, name: str) -> str | None:
        """The column of this name in any case, as it is declared."""
        return next((one for one in self.columns or () if one.lower() == name.lower()), None)


class Ref(msgspec.Struct, frozen=True):
    """A column of a relation: `source` is its place in the scope."""

    source: int
    name: str


class Scope(msgspec.Struct, frozen=True):
    sources: tuple[Source, ...]

    def ref(self, fragment: Fragment | Sequence[Token]) -> Ref | None:
        """The column, if the expression is nothing but its name."""
        tokens = fragment.tokens if isinstance(fragment, Fragment) else fragment
        if len(tokens) == 1 and tokens[0].is_name:
            return self._unqualified(tokens[0].value)
        if len(tokens) == 3 and tokens[0].is_name and tokens[1].says(".") and tokens[2].is_name:
            for place, source in enumerate(self.sources):
                if source.called.lower() == tokens[0].value.lower():
                    name = source.column(tokens[2].value)
                    return None if name is None else Ref(place, name)
        return None

    def reads(self, tokens: Sequence[Token]) -> set[int]:
        """The places of the relations that an expression names, as far as its tokens tell."""
        found: set[int] = set()
        called = {source.called.lower(): place for place, source in enumerate(self.sources)}
        for at, token in enumerate(tokens):
            if not token.is_name or (at and tokens[at - 1].says(".", "->")):
                continue
            after = tokens[at + 1] if at + 1 < len(tokens) else None
            if after is not None and after.says("."):
                if token.value.lower() in called:
                    found.add(called[token.value.lower()])
                continue
            ref = None if after is not None and after.says("(") else self._unqualified(token.value)
            if ref is not None:
                found.add(ref.source)
        return found

    def _unqualified(self, name: str) -> Ref | None:
        found = [
            Ref(place, known) for place, source in enumerate(self.sources) if (known := source.column(name)) is not None
        ]
        return found[0] if len(found) == 1 else None


def qualified(source: Source, name: str) -> str:
    return f"{quoted(source.called)}.{quoted(name)}"
