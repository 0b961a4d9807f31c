"""GROUP BY over a table: aggregates that rows enter and leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

from moldau.products.pipelines.core.statement import quoted
from moldau.products.sql.compiling.composed import Composed, joined
from moldau.products.sql.compiling.expressions import (
    Writing,
    after_bracket,
    aggregate_calls,
    is_same,
    place_of_fragment,
    split_at,
)
from moldau.products.sql.compiling.outputs import Output
from moldau.products.sql.compiling.plan import QueryPlan
from moldau.products.sql.compiling.spark_text import sql_frame
from moldau.products.sql.language.queries import Fragment, Select
from moldau.products.sql.language.rewrites import Dialect
from moldau.products.sql.language.tokens import Kind, Token, text_of, tokenize
from moldau.spark.tables.aggregates import Aggregate, AggregateError, aggregate
from moldau.spark.tables.aggregates import Kind as AggregateKind
from moldau.spark.tables.buckets import DELETED

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession

_KINDS = {**{kind: kind for kind in get_args(AggregateKind)}, "mean": "avg", "array_agg": "collect_list"}
_GROUPS = "_moldau_groups"


def frame_of_groups(
    spark: SparkSession, plan: QueryPlan, select: Select, writing: Writing, from_: Composed
) -> DataFrame:
    """`from_`: the view of the changes. Raises SqlError."""
    return _Groups(spark, plan, select, writing).frame(from_)


class _Groups:
    def __init__(self, spark: SparkSession, plan: QueryPlan, select: Select, writing: Writing) -> None:
        self._spark, self._plan, self._writing = spark, plan, writing
        self._select, self._scope = select, plan.scope
        self._arguments: dict[str, str] = {}
        """Names of columns, by the SQL of arguments of aggregates."""
        self._aggregates: dict[tuple[str, str | None], str] = {}
        """Names of columns, by the kind and the argument of an aggregate."""

    def frame(self, from_: Composed) -> DataFrame:
        select, writing = self._select, self._writing
        items = [self._output(one) for one in self._plan.outputs]
        condition = None if select.having is None else self._rewritten(select.having)
        by = [f"_by{place}" for place in range(len(select.group_by))]
        parts = [Composed("(", writing.sql(one), f") AS {name}") for one, name in zip(select.group_by, by, strict=True)]
        parts += [Composed(f"({sql}) AS {name}") for sql, name in self._arguments.items()]
        read = Composed("SELECT ", joined([*parts, DELETED], ", "), " FROM ", from_)
        if select.where is not None:
            read.add(Composed(" WHERE ", writing.sql(select.where)))
        aggregates = [
            Aggregate(kind, argument, name)  # type: ignore[arg-type]
            for (kind, argument), name in self._aggregates.items()
        ]
        try:
            groups = aggregate(sql_frame(self._spark, read, self._writing), by, aggregates)
        except AggregateError as error:
            raise writing.error(place_of_fragment(select.items[0].expression), str(error)) from error
        self._named(groups, by).createOrReplaceTempView(_GROUPS)
        text = Composed("SELECT ", joined([*items, DELETED], ", "), f" FROM {_GROUPS}")
        if condition is not None:
            text.add(Composed(" WHERE ", condition))
        return sql_frame(self._spark, text, self._writing)

    def _output(self, one: Output) -> Composed:
        fragment = one.fragment
        for place, expression in enumerate(self._select.group_by):
            ref = self._scope.ref(expression)
            if (ref is not None and ref == one.ref) or (fragment and is_same(expression, fragment, self._scope)):
                return Composed(f"_by{place} AS {quoted(one.name)}")
        if fragment is None:
            raise self._writing.error(
                place_of_fragment(self._select.items[0].expression),
                f"{one.name} is neither in GROUP BY nor in an aggregate",
            )
        return Composed(self._rewritten(fragment), f" AS {quoted(one.name)}")

    def _rewritten(self, fragment: Fragment) -> Composed:
        """The expression over the groups: each aggregate is a column."""
        # ksqlDB's meaning of an aggregate (SUM of no value is 0) is an expression over several of Spark's
        made = self._writing.sql(fragment, dialect=Dialect.SPARK)
        tokens = tokenize(made.text)[:-1]
        calls = list(aggregate_calls(tokens))
        if not calls:
            return Composed(made)
        text, at = "", 0
        for start, end in calls:
            text += "".join(token.before + token.text for token in tokens[at:start])
            text += f"{tokens[start].before}{self._aggregate(tokens[start:end], fragment)}"
            at = end
        return Composed(text + "".join(token.before + token.text for token in tokens[at:]))

    def _aggregate(self, call: Sequence[Token], fragment: Fragment) -> str:
        """The column of an aggregate."""
        name = call[0].value.lower()
        end = after_bracket(call, 1)
        inner = list(call[2 : end - 1])
        if inner and inner[0].says("DISTINCT") and name == "count":
            name, inner = "count_distinct", inner[1:]
        kind = _KINDS.get(name)
        if kind is None or end < len(call) or len(split_at(inner, ",")) != 1:
            known = ", ".join(sorted({*_KINDS} - {"count_distinct"}))
            raise self._writing.error(
                place_of_fragment(fragment),
                f"`{text_of(call)}` cannot be kept while rows of a table change and go; these can: {known}, and "
                "count(DISTINCT x)",
            )
        argument: str | None = None
        is_all = len(inner) == 1 and (inner[0].says("*") or inner[0].kind is Kind.NUMBER)
        if not (kind == "count" and is_all):
            argument = self._arguments.setdefault(text_of(inner), f"_arg{len(self._arguments)}")
        return self._aggregates.setdefault((kind, argument), f"_agg{len(self._aggregates)}")

    def _named(self, groups: DataFrame, by: Sequence[str]) -> DataFrame:
        """The groups, with the columns of GROUP BY by their own names too: expressions over them name them so."""
        named: dict[str, list[str]] = {}
        texts = ["*"]
        for name, expression in zip(by, self._select.group_by, strict=True):
            ref = self._scope.ref(expression)
            if ref is not None:
                called = self._scope.sources[ref.source].called
                named.setdefault(called, []).append(f"{name} AS {quoted(ref.name)}")
                texts.append(f"{name} AS {quoted(ref.name)}")
        texts += [f"struct({', '.join(fields)}) AS {quoted(called)}" for called, fields in named.items()]
        return groups.selectExpr(*texts)
