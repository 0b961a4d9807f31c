"""Decides whether each row of a streaming DataFrame comes from one record, which an error then belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

_BY_ROW = frozenset({
    "CollectMetrics", "CTERelationDef", "EventTimeWatermark", "Filter", "Generate", "MapInArrow", "MapInPandas",
    "Project", "SubqueryAlias", "Union", "View", "WithCTE",
})  # fmt: skip
"""Nodes of Spark's plans that handle one row of the stream at a time. Excludes groups, joins of two streams, sorts and
all others that keep rows or state."""
_NAMES = frozenset({"SubqueryAlias", "View"})
_OF_A_GROUP = "AggregateExpression"


def is_by_record(rows: DataFrame) -> bool:
    """Also true if the last step groups the records, and its results cannot fail, because errors then come from the
    grouped rows. `rows`: of a session in this process (see `is_connect`)."""
    plan = rows._jdf.queryExecution().analyzed()
    top = plan
    while top.nodeName() in _NAMES:
        (top,) = _children(top)
    if top.nodeName() == "Aggregate":
        return _is_plain(top) and all(map(_is_by_row, _children(top)))
    return _is_by_row(plan)


def _is_by_row(plan: Any) -> bool:
    """`plan`: a node of Spark's plan. A part that is not a stream, such as a table to join with, is the same for each
    record."""
    if not plan.isStreaming():
        return True
    children = _children(plan)
    if plan.nodeName() == "Join":
        return sum(child.isStreaming() for child in children) == 1 and all(map(_is_by_row, children))
    return not children or (plan.nodeName() in _BY_ROW and all(map(_is_by_row, children)))


def _is_plain(aggregate: Any) -> bool:
    """Whether each column is either an aggregate or a key, with nothing computed from aggregates."""
    for column in _elements(aggregate.aggregateExpressions()):
        while column.nodeName() == "Alias":
            (column,) = _children(column)
        if column.nodeName() != _OF_A_GROUP and _has_group(column):
            return False
    return True


def _has_group(column: Any) -> bool:
    return column.nodeName() == _OF_A_GROUP or any(map(_has_group, _children(column)))


def _children(node: Any) -> list[Any]:
    return list(_elements(node.children()))


def _elements(sequence: Any) -> Iterator[Any]:
    """The elements of a Scala sequence."""
    return (sequence.apply(place) for place in range(sequence.size()))
