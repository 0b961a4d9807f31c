"""The steps of a query that reads tables as they change: its joins one after the other, then its SELECT.

Each join gives a struct for each relation, with its name. `a.b` in the statement is then a field of a struct for
Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.products.pipelines.core.statement import quoted
from moldau.products.sql.compiling.composed import Composed, joined
from moldau.products.sql.compiling.expressions import Writing, is_aggregated, place_of_fragment
from moldau.products.sql.compiling.groups import frame_of_groups
from moldau.products.sql.compiling.links import How, Link
from moldau.products.sql.compiling.plan import QueryPlan
from moldau.products.sql.compiling.scope import Ref, Scope, Source, qualified
from moldau.products.sql.compiling.select_text import From, added_columns, from_sql, select_sql
from moldau.products.sql.compiling.spark_text import sql_frame
from moldau.products.sql.language.queries import Select
from moldau.products.sql.records.layout import EVENT_TIME, PSEUDO_COLUMNS, ROW_OFFSET, ROW_TIME
from moldau.spark import expression, spark_error
from moldau.spark.tables.buckets import DELETED, Side
from moldau.spark.tables.joins import join
from moldau.spark.tables.lookups import look_up
from moldau.spark.tables.newest import newest
from moldau.spark.tables.references import join_by_reference

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession

JOINED = "_moldau_joined"
"""The view with the rows that SELECT reads."""
_LEFT = "_moldau_left"


def frame_over_tables(spark: SparkSession, plan: QueryPlan, select: Select, writing: Writing) -> DataFrame:
    """Raises SqlError."""
    return _Making(spark, plan, select, writing).frame()


class _Making:
    def __init__(self, spark: SparkSession, plan: QueryPlan, select: Select, writing: Writing) -> None:
        self._spark, self._plan, self._writing = spark, plan, writing
        self._select, self._sources = select, plan.scope.sources
        self._is_changes = plan.links[-1].is_changes if plan.links else True

    def frame(self) -> DataFrame:
        plan, writing, select = self._plan, self._writing, self._select
        rows = self._rows()
        if plan.watermark_ms is not None and plan.source_watermark_ms is None:
            rows = rows.withWatermark(EVENT_TIME, f"{plan.watermark_ms} milliseconds")
        rows.createOrReplaceTempView(JOINED)
        from_ = From(Composed(JOINED if plan.links else f"{JOINED} AS {quoted(self._sources[0].called)}"), EVENT_TIME)
        if self._is_changes and is_aggregated(select):
            return frame_of_groups(self._spark, plan, select, writing, from_.text)
        more = added_columns(writing, select, plan.outputs, EVENT_TIME, deletes=plan.deletes)
        if self._is_changes:
            more.append(DELETED)
        text = select_sql(writing, select, plan.outputs, plan.scope, from_, more=more, having=not plan.deletes)
        return sql_frame(self._spark, text, self._writing)

    def _rows(self) -> DataFrame:
        """With DELETED if they are changes, and with EVENT_TIME."""
        first = self._sources[0]
        within = [link for link in self._plan.links if link.how is How.WITHIN]
        made = None if first.is_table else self._streams(within)
        for link in self._plan.links[len(within) :]:
            made = self._linked(made, link)
        return newest(self._table(first)) if made is None else self._flat(made)

    def _streams(self, within: Sequence[Link]) -> DataFrame:
        """The streams, joined, with a struct for each."""
        read = self._sources[: len(within) + 1]
        joins = [link.join for link in within]
        structs = joined([f"struct({quoted(one.called)}.*) AS {quoted(one.called)}" for one in read], ", ")
        return sql_frame(
            self._spark,
            Composed("SELECT ", structs, " FROM ", from_sql(self._writing, Scope(read), joins).text),
            self._writing,
        )

    def _linked(self, left: DataFrame | None, link: Link) -> DataFrame:
        """`left`: a struct for each relation; None: the first relation, a table, by itself."""
        right = self._sources[link.right]
        other = self._table(right)
        place = place_of_fragment(link.join.on)
        how = link.join.kind.value
        try:
            if link.how is How.LOOK_UP and left is not None:
                rows, reference = self._with(left, link)
                self._check_types(rows, reference, other, link)
                made = look_up(Side(rows, reference, name=_LEFT), other, how)  # type: ignore[arg-type]
            elif link.how is How.ON_KEY:
                side = self._left(left, link)
                self._check_types(side.rows, side.key, other, link)
                made = join(side, other, how)  # type: ignore[arg-type]
            else:
                side = self._left(left, link)
                rows, reference = self._with(side.rows, link, is_single=left is None)
                self._check_types(rows, reference, other, link)
                side = Side(rows, side.key, side.order, side.name)
                made = join_by_reference(side, reference, other, how)  # type: ignore[arg-type]
        except spark_error() as error:
            raise self._writing.error(place, str(error).splitlines()[0]) from error
        if left is None:
            return made
        before = [f"{_LEFT}.{quoted(one.called)}" for one in self._sources[: link.right]]
        return made.select(*before, quoted(right.called), *([DELETED] if DELETED in made.columns else []))

    def _left(self, left: DataFrame | None, link: Link) -> Side:
        if left is None:
            return self._table(self._sources[0])
        # any of the keys: in an inner join they are equal, and a left join has that of its left side
        keys = {f"_key{place}": self._field(ref) for place, ref in enumerate(self._key_before(link))}
        return Side(_with_columns(left, keys), tuple(keys), name=_LEFT)

    def _key_before(self, link: Link) -> tuple[Ref, ...]:
        at = self._plan.links.index(link)
        before = self._plan.links[at - 1]
        return before.keys[0]

    def _field(self, ref: Ref) -> str:
        return qualified(self._sources[ref.source], ref.name)

    def _with(self, rows: DataFrame, link: Link, *, is_single: bool = False) -> tuple[DataFrame, tuple[str, ...]]:
        """The rows with the expressions that refer to the key of the right side."""
        names = tuple(f"_ref{place}" for place in range(len(link.reference)))
        parts = [
            Composed("(", self._writing.sql(one), f") AS {name}")
            for one, name in zip(link.reference, names, strict=True)
        ]
        view = f"{JOINED}_{link.right}"
        (rows if is_single else self._flat(rows)).createOrReplaceTempView(view)
        kept = joined(map(quoted, rows.columns), ", ")
        alias = f" AS {quoted(self._sources[0].called)}" if is_single else ""
        return sql_frame(
            self._spark, Composed("SELECT ", kept, ", ", joined(parts, ", "), f" FROM {view}{alias}"), self._writing
        ), names

    def _flat(self, rows: DataFrame) -> DataFrame:
        """Adds the columns that only one relation has, for names without a relation, and the columns PSEUDO_COLUMNS."""
        sources = [one for one in self._sources if one.called in rows.columns]
        taken = {one.called.lower() for one in sources}
        names: list[tuple[Source, str]] = [(one, name) for one in sources for name in one.columns or ()]
        lower = [name.lower() for _, name in names]
        more = {
            name: qualified(source, name)
            for source, name in names
            if lower.count(name.lower()) == 1 and name.lower() not in taken
        }
        first = sources[0]
        times = [qualified(one, EVENT_TIME) for one in sources]
        is_stream = not first.is_table
        more[EVENT_TIME] = times[0] if is_stream or len(times) == 1 else f"greatest({', '.join(times)})"
        more[ROW_TIME] = f"unix_millis({more[EVENT_TIME]})"
        if is_stream:
            more |= {name: qualified(first, name) for name in PSEUDO_COLUMNS if name not in more}
        return _with_columns(rows, more)

    def _table(self, source: Source) -> Side:
        rows = self._spark.table(str(source.sql))  # of a table it is the name of a view
        kept = [*(source.columns or ()), ROW_TIME, EVENT_TIME, ROW_OFFSET, DELETED]
        return Side(rows.select(*map(quoted, kept)), source.key, ROW_OFFSET, source.called)

    def _check_types(self, rows: DataFrame, reference: Sequence[str], other: Side, link: Link) -> None:
        left, right = dict(rows.dtypes), dict(other.rows.dtypes)
        for name, key, fragment in zip(reference, other.key, link.reference, strict=True):
            kinds = left[name], right[key]
            if kinds[0] != kinds[1] and not set(kinds) <= _WHOLE:
                raise self._writing.error(
                    place_of_fragment(fragment),
                    f"`{fragment.text}` is of type {kinds[0]}, and the key {other.name}.{key} of type {kinds[1]}: cast "
                    "one of them",
                )


_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})


def _with_columns(rows: DataFrame, columns: dict[str, str]) -> DataFrame:
    return rows.select("*", *(expression(f"{sql} AS {quoted(name)}") for name, sql in columns.items()))
