"""EXPLAIN: what a query reads and gives, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.products.pipelines.targets.changes import DELETED
from moldau.products.sql.engine.answers import Explained
from moldau.products.sql.engine.compiled import NAMESPACE_SETTINGS, Compiled, Place
from moldau.products.sql.records.layout import EVENT_TIME
from moldau.spark.queries.namespace import as_active, open_namespace

if TYPE_CHECKING:
    from moldau.spark import SparkSession


def explained(spark: SparkSession, compiled: Compiled, place: Place) -> Explained:
    """Runs nothing. Raises SqlError, FlowError."""
    own = open_namespace(spark, NAMESPACE_SETTINGS)
    with as_active(own):
        frame = compiled.live_frame(own, compiled.sources(place, "latest"))
    plan = compiled.plan
    return Explained(
        reads=tuple(one.name for one in plan.reads),
        columns=tuple((name, kind) for name, kind in frame.dtypes if name not in (EVENT_TIME, DELETED)),
        key=plan.key,
        steps=plan.steps,
        text=plan.text.text if plan.text is not None else "",
        rewrites=tuple(compiled.writing.rewrites),
        plan=str(frame._jdf.queryExecution().analyzed().treeString()),
        warnings=tuple(compiled.writing.warnings),
    )
