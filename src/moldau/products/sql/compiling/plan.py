"""What a query reads, gives and keeps, decided without Spark.

A live query over streams is one text for Spark. A live query over tables is taken apart (`over_tables`), because rows
of tables change and go. A query that ends is one text too, over what the topics hold now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from moldau.products.pipelines.core.statement import groups, quoted
from moldau.products.sql.catalog.catalog import Catalog, Relation, View, Written
from moldau.products.sql.catalog.reads import names_read, read_again
from moldau.products.sql.compiling.composed import Composed, joined
from moldau.products.sql.compiling.expressions import Writing, is_aggregated, place_of_fragment
from moldau.products.sql.compiling.keys import key_by, key_of_both, key_of_refs
from moldau.products.sql.compiling.links import How, Link, links_of
from moldau.products.sql.compiling.outputs import Output, named_so, outputs_of
from moldau.products.sql.compiling.scope import Ref, Scope, Source, qualified
from moldau.products.sql.compiling.select_text import WINDOW_END, WINDOW_START, added_columns, from_sql, select_sql
from moldau.products.sql.language.queries import Emit, Query, Select, WindowKind
from moldau.products.sql.language.queries import Relation as Named
from moldau.products.sql.language.rewrites import dialect_of
from moldau.products.sql.language.statements import InsertQuery, Kind
from moldau.products.sql.records.layout import EVENT_TIME, PSEUDO_COLUMNS, names_of

GRACE_MS = 24 * 3_600_000
"""How late rows may be for a window or a join without GRACE PERIOD, as in ksqlDB."""

MOST_TEXT = 100_000
"""The most characters of a view's query. A view that reads another one twice has twice its text."""


class QueryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`text`: the query in Spark SQL; None if it is taken apart by `links`. `reads`: the streams and tables. `kind`: of
    the result. `key`: its columns in the result. `mode`: of the Spark query. `watermark_ms`: how late rows of streams
    may be; None: they are never too late. `deletes`: HAVING removes rows, by the column HOLDS. `limit`: of rows."""

    query: Query
    kind: Kind
    reads: tuple[Relation, ...]
    mode: str = "append"
    key: tuple[str, ...] = ()
    text: Composed | None = None
    select: Select | None = None
    scope: Scope = Scope(())
    outputs: tuple[Output, ...] = ()
    links: tuple[Link, ...] = ()
    watermark_ms: int | None = None
    deletes: bool = False
    steps: tuple[str, ...] = ()

    @property
    def source_watermark_ms(self) -> int | None:
        """As `watermark_ms`, of the sources themselves. A join with a table gives rows without a watermark, which get
        theirs after it: Spark takes no second one."""
        is_late = self.links and not any(link.how is How.WITHIN for link in self.links)
        return None if is_late else self.watermark_ms

    @property
    def limit(self) -> int | None:
        return self.query.limit


def rows_view(relation: Relation) -> str:
    """The name of the view with a relation's rows and PSEUDO_COLUMNS. The view of the relation's own name has its
    declared columns only, for the parts of a query that only Spark reads."""
    return f"_rows_of_{relation.name}"


class Asked(msgspec.Struct, frozen=True):
    """A query as a statement asks it. `names`: of its columns, in their order; () for its own."""

    query: Query
    writing: Writing
    names: tuple[str, ...] = ()


def asked_by(statement: Any, writing: Writing) -> Asked:
    """`statement`: one with a query."""
    names = tuple(one.text for one in statement.columns) if isinstance(statement, InsertQuery) else ()
    return Asked(statement.query, writing, names)


def kept_query(written: Written) -> Asked:
    """The query of an item of the catalog. Raises SqlError."""
    return asked_by(read_again(written), Writing(written.statement, written.types, dialect_of(written.properties)))


def plan_query(catalog: Catalog, asked: Asked, *, is_live: bool) -> QueryPlan:
    """`is_live`: it runs on as rows come; otherwise it ends with what is there. Raises SqlError."""
    return _Planning(catalog, asked.writing, is_live=is_live, names=asked.names).plan(asked.query)


class _Planning:
    def __init__(self, catalog: Catalog, writing: Writing, *, is_live: bool, names: tuple[str, ...] = ()) -> None:
        self._catalog, self._writing, self._is_live, self._names = catalog, writing, is_live, names

    def plan(self, query: Query) -> QueryPlan:
        reads = self._reads(query)
        if not query.selects:
            return self._whole(query, reads)
        if len(query.selects) > 1:
            return self._union(query, reads)
        select = query.selects[0]
        if select.relation is None:
            if not self._is_live:
                return self._whole(query, reads)
            raise self._writing.error(place_of_fragment(query.source), "a query that runs on has FROM")
        scope = self._scope(select)
        self._check(query, select, scope)
        outputs = outputs_of(select, scope, self._writing)
        if self._names:
            outputs = named_so(outputs, self._names, self._writing, place_of_fragment(query.source))
        if self._is_live and any(source.is_table for source in scope.sources):
            return self._over_tables(query, select, scope, outputs, reads)
        return self._over_streams(query, select, scope, outputs, reads)

    # --- what it reads

    def _reads(self, query: Query) -> tuple[Relation, ...]:
        names = (name.key for name in names_read(self._catalog, query))
        return tuple(self._catalog.relations[key] for key in names if key in self._catalog.relations)

    def _scope(self, select: Select) -> Scope:
        named = [select.relation, *(join.relation for join in select.joins)]
        return Scope(tuple(self._source(one) for one in named if one is not None))

    def _source(self, named: Named) -> Source:
        name = named.name
        called = named.called.text if named.called is not None else "_query"
        if name is not None and name.key in self._catalog.relations:
            relation = self._catalog.relations[name.key]
            if relation.columns is None:
                raise self._writing.error(name.place, f"the columns of {relation.name} are not known")
            return Source(called, quoted(rows_view(relation)), relation, tuple(names_of(relation.columns)))
        if name is not None and name.key in self._catalog.views:
            return self._view(called, self._catalog.views[name.key], name.place)
        return Source(called, Composed(self._writing.sql(named.source)))

    def _view(self, called: str, view: View, at: tuple[int, int]) -> Source:
        """Its query in parentheses, with the columns of a row where it has them."""
        asked = kept_query(view)
        plan = plan_query(self._catalog, asked, is_live=self._is_live)
        if plan.text is None:
            raise asked.writing.error((1, 1), "a view over a table is read by a query that ends; write its query here")
        names = [one.name for one in plan.outputs] if len(asked.query.selects) == 1 else []
        columns = tuple(names) if names and all(names) else None
        key = plan.key if columns and plan.kind is Kind.STREAM else ()
        if len(plan.text.text) > MOST_TEXT:
            problem = f"the query of the view {view.name} has more than {MOST_TEXT:,} characters with the views in it"
            raise self._writing.error(at, f"{problem}: create a stream or table with a part of it")
        # its places are those of another statement
        return Source(called, f"({plan.text.text})", columns=columns, view_key=key)

    # --- over streams, or over what is there now

    def _whole(self, query: Query, reads: tuple[Relation, ...]) -> QueryPlan:
        if self._is_live and any(one.kind is Kind.TABLE for one in reads):
            table = next(one for one in reads if one.kind is Kind.TABLE)
            raise self._writing.error(
                place_of_fragment(query.source),
                f"this query has a clause that only Spark reads (ORDER BY, UNION, LATERAL VIEW, USING...), so it ends: "
                f"the table {table.name} changes. Leave out EMIT, or create a stream or table without that clause",
            )
        text = Composed(self._writing.sql(query.source))
        if self._is_live and groups(text.text):
            raise self._writing.error(
                place_of_fragment(query.source),
                "this query groups rows, and has a clause that only Spark reads (LATERAL VIEW, UNION, USING): create "
                "a stream with that clause, and group it",
            )
        return QueryPlan(
            query=query,
            kind=Kind.STREAM,
            reads=reads,
            text=text,
            steps=(*_reading(reads), "the query goes to Spark as written"),
        )

    def _union(self, query: Query, reads: tuple[Relation, ...]) -> QueryPlan:
        parts: list[QueryPlan] = []
        for select in query.selects:
            one = msgspec.structs.replace(query, selects=(select,))
            parts.append(self.plan(one))
        if any(part.text is None or part.mode != "append" for part in parts):
            raise self._writing.error(
                place_of_fragment(query.source), "UNION ALL joins streams without GROUP BY; insert into one from each"
            )
        texts = [part.text for part in parts if part.text is not None]
        return msgspec.structs.replace(parts[0], query=query, reads=reads, text=joined(texts, " UNION ALL "))

    def _over_streams(
        self, query: Query, select: Select, scope: Scope, outputs: tuple[Output, ...], reads: tuple[Relation, ...]
    ) -> QueryPlan:
        writing = self._writing
        self._check_joins(select, scope)
        from_ = from_sql(writing, scope, select.joins)
        is_grouped = is_aggregated(select)
        kind = Kind.TABLE if is_grouped or all(one.is_table for one in scope.sources) else Kind.STREAM
        key = self._key(select, scope, outputs)
        is_final = query.emit is Emit.FINAL
        deletes = self._is_live and is_grouped and select.having is not None and not is_final
        time = self._time(select, scope)
        more = added_columns(writing, select, outputs, time, deletes=deletes)
        if time is not None and not is_grouped:
            # a view over it has the other columns of a row too
            names = {EVENT_TIME, *(one.name.upper() for one in outputs)}
            others = (name for name in PSEUDO_COLUMNS if name not in names)
            more += [f"{qualified(scope.sources[0], name)} AS {name}" for name in others]
        text = Composed()
        if query.definitions is not None:
            text.add(writing.sql(query.definitions))
            text.add(" ")
        text.add(select_sql(writing, select, outputs, scope, from_, more=more, having=not deletes))
        if not self._is_live and query.limit is not None:
            text.add(f" LIMIT {query.limit}")
        return QueryPlan(
            query=query,
            kind=kind,
            reads=reads,
            mode="update" if is_grouped and not is_final else "append",
            key=(*key, WINDOW_START, WINDOW_END) if select.window is not None else key,
            text=text,
            select=select,
            scope=scope,
            outputs=outputs,
            watermark_ms=_watermark(select),
            deletes=deletes,
            steps=_steps(select, reads, query),
        )

    def _time(self, select: Select, scope: Scope) -> str | None:
        """The time of the rows, as SQL; None if they have none."""
        if select.is_distinct or not scope.sources or any(source.relation is None for source in scope.sources):
            return None
        times = [qualified(source, EVENT_TIME) for source in scope.sources]
        return times[0] if len(times) == 1 else f"greatest({', '.join(times)})"

    def _key(self, select: Select, scope: Scope, outputs: Sequence[Output]) -> tuple[str, ...]:
        if select.group_by:
            return key_by(select.group_by, outputs, scope, self._writing, "GROUP BY")
        if select.window is not None or is_aggregated(select):
            return ()
        if select.partition_by:
            return key_by(select.partition_by, outputs, scope, self._writing, "PARTITION BY")
        alternatives = [tuple(Ref(place, name) for name in source.key) for place, source in enumerate(scope.sources)]
        return key_of_refs(alternatives, outputs) or ()

    # --- over tables that change

    def _over_tables(
        self, query: Query, select: Select, scope: Scope, outputs: tuple[Output, ...], reads: tuple[Relation, ...]
    ) -> QueryPlan:
        links = links_of(select, scope, self._writing)
        is_stream = not links[-1].is_changes if links else False
        is_grouped = is_aggregated(select)
        if not is_stream and select.window is not None:
            raise self._writing.error(
                (select.window.line, select.window.column), "a window is of a stream: a table has one row for each key"
            )
        if is_stream and not is_grouped:
            key = self._key(select, scope, outputs)
            kind, mode = Kind.STREAM, "append"
        elif is_grouped:
            key, kind, mode = self._key(select, scope, outputs), Kind.TABLE, "update"
        else:
            alternatives = links[-1].keys if links else (tuple(Ref(0, name) for name in scope.sources[0].key),)
            key, kind, mode = self._key_of_table(alternatives, links, outputs, scope), Kind.TABLE, "update"
        if query.emit is Emit.FINAL:
            mode = "append"
        if is_stream and select.window is not None:
            key = (*key, WINDOW_START, WINDOW_END)
        deletes = is_stream and is_grouped and select.having is not None and mode == "update"
        return QueryPlan(
            query=query,
            kind=kind,
            reads=reads,
            mode=mode,
            key=key,
            select=select,
            scope=scope,
            outputs=outputs,
            links=links,
            watermark_ms=_watermark(select),
            deletes=deletes,
            steps=_steps(select, reads, query),
        )

    def _key_of_table(
        self,
        alternatives: tuple[tuple[Ref, ...], ...],
        links: tuple[Link, ...],
        outputs: Sequence[Output],
        scope: Scope,
    ) -> tuple[str, ...]:
        # after a full join either side may be missing, so neither key is that of the result
        is_full = bool(links) and links[-1].is_full
        found = key_of_both(alternatives, outputs, scope) if is_full else key_of_refs(alternatives, outputs)
        if found is None:
            wanted = alternatives[0] if alternatives else ()
            names = ", ".join(f"{scope.sources[ref.source].called}.{ref.name}" for ref in wanted)
            what = f"COALESCE of the keys of both ({names}...)" if is_full else names
            place = place_of_fragment(outputs[0].fragment) if outputs and outputs[0].fragment is not None else (1, 1)
            raise self._writing.error(place, f"a table has its key: add {what} to SELECT")
        return found

    # --- checks

    def _check(self, query: Query, select: Select, scope: Scope) -> None:
        writing = self._writing
        if query.emit is Emit.FINAL and select.window is None:
            raise writing.error(
                place_of_fragment(query.source), "EMIT FINAL needs a window: without one, a row is never final"
            )
        if not self._is_live:
            return
        if select.is_distinct:
            raise writing.error(
                place_of_fragment(select.items[0].expression),
                "SELECT DISTINCT would keep every row for ever: use GROUP BY, whose table has each group once",
            )
        window = select.window
        if window is not None and window.kind is WindowKind.SESSION and query.emit is not Emit.FINAL:
            raise writing.error(
                (window.line, window.column), "a session grows and merges until it is over: use EMIT FINAL"
            )
        if is_aggregated(select) and window is None and scope.sources and not scope.sources[0].is_table:
            what = ", ".join(one.text for one in select.group_by) or "all rows"
            writing.warn(
                place_of_fragment(select.group_by[0] if select.group_by else select.items[0].expression),
                f"the groups by {what} are kept for ever: a WINDOW bounds them",
            )

    def _check_joins(self, select: Select, scope: Scope) -> None:
        if not self._is_live:
            return
        for join in select.joins:
            if join.within is None:
                raise self._writing.error(
                    (join.line, join.column),
                    "two streams are joined WITHIN a time, as in WITHIN 1 HOUR: else every row would be kept for ever",
                )


def _watermark(select: Select) -> int | None:
    """How late rows may be: the longest of the grace periods."""
    graces = [] if select.window is None else [select.window.grace]
    graces += [join.within.grace for join in select.joins if join.within is not None]
    return max((GRACE_MS if one is None else one.milliseconds for one in graces), default=None)


def _reading(reads: Sequence[Relation]) -> list[str]:
    return [f"read the {one.kind.value} {one.name} (topic {one.topic})" for one in reads]


def _steps(select: Select, reads: Sequence[Relation], query: Query) -> tuple[str, ...]:
    """What happens to the rows, a sentence each."""
    found = _reading(reads)
    for join in select.joins:
        within = "" if join.within is None else f" within {join.within.after.milliseconds / 1_000:g} s"
        found.append(f"{join.kind.value} join with {join.relation.source.text}{within} on {join.on.text}")
    if select.where is not None:
        found.append(f"keep rows where {select.where.text}")
    if select.window is not None:
        found.append(f"{select.window.kind.value} window of {select.window.size.milliseconds / 1_000:g} s")
    if select.group_by:
        found.append(f"group by {', '.join(one.text for one in select.group_by)}")
    if select.having is not None:
        found.append(f"keep groups having {select.having.text}")
    if select.partition_by:
        found.append(f"partition by {', '.join(one.text for one in select.partition_by)}")
    found.append(f"select {', '.join(item.expression.text for item in select.items)}")
    if query.emit is Emit.FINAL:
        found.append("give a window's row once, after its grace period")
    return tuple(found)
