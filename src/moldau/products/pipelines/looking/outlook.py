"""Asks Spark for the results of a pipeline's queries, and predicts a run. Changes nothing."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from moldau.products.pipelines.checkpoints.checkpoint import kept_state, write_whole
from moldau.products.pipelines.core.case import Row
from moldau.products.pipelines.core.failures import PipelineFailedError, what_failed
from moldau.products.pipelines.core.start import EARLIEST
from moldau.products.pipelines.looking.standing import QueryStanding, standing_of
from moldau.products.pipelines.running.checkpoint_versions import starting_offsets
from moldau.products.pipelines.running.flow import load_sources, make_result, make_views, rows_of, state_store_for
from moldau.products.pipelines.running.preflight import check_spec
from moldau.products.pipelines.spec.spec import PipelineSpec
from moldau.products.pipelines.targets.changes import DELETED
from moldau.products.pipelines.targets.terminal import first_of
from moldau.products.service.look.words import show_size
from moldau.spark import QUICK_START, open_session, spark_error
from moldau.spark.session.connect import REMOTE
from moldau.spark.session.task_secrets import check_secrets
from moldau.types import counted

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession

_LOOK_S = 1


class QueryOutlook(msgspec.Struct, frozen=True):
    """`columns`: the names and Spark types of the rows for the target. `made_topic`: the target's topic, if a run would
    create it. `state_steps`, `state_bytes`: the state in the checkpoint, besides offsets."""

    standing: QueryStanding
    columns: tuple[tuple[str, str], ...]
    made_topic: str | None
    state_steps: int
    state_bytes: int

    def details(self) -> list[str]:
        """A line for each change, for the offsets where a run would continue, and for the state."""
        lines = self.standing.details()
        if self.made_topic is not None:
            lines.append(f"topic {self.made_topic} does not exist: a run lets the cluster make it")
        if self.state_steps:
            fate = "stays with the old checkpoint after a reset" if self.standing.changed else "is kept"
            lines.append(f"the state of {counted(self.state_steps, 'step')} ({show_size(self.state_bytes)}) {fate}")
        return lines


def plan_of(spec: PipelineSpec, settings: Mapping[str, str] | None = None) -> list[QueryOutlook]:
    """The effect of a run on each query. `settings`: of Spark, as in `open_session`.

    Raises the errors with which a run would fail before its first batch.
    """
    absent = check_spec(spec, on_server=REMOTE in (settings or {}))
    _, standings = standing_of(spec)
    spark = _brief_session(spec, settings)
    views = make_views(spark, spec, load_sources(spark, spec, starting_offsets(spec).sources, is_look=True))
    for query in spec.queries:
        make_result(spec, query, views)
    return [
        QueryOutlook(
            standing,
            tuple(query.target.newest(views[query.step.target.reads]).drop(DELETED).dtypes),
            query.target.topic if query.target.topic in absent else None,
            *kept_state(query.checkpoint),
        )
        for standing, query in zip(standings, spec.queries, strict=True)
    ]


def _brief_session(spec: PipelineSpec, settings: Mapping[str, str] | None) -> SparkSession:
    spark = open_session(spec.name, {**QUICK_START, **(settings or {})})
    check_secrets(spark, spec.clusters)
    return spark


def preview(spec: PipelineSpec, name: str, rows: int, settings: Mapping[str, str] | None = None) -> list[Row]:
    """The first rows of a source or flow, read from the earliest offsets. Raises FlowError, PipelineFailedError."""
    spark = _brief_session(spec, settings)
    loaded = load_sources(spark, spec, dict.fromkeys(spec.sources(), EARLIEST), is_look=True)
    views = make_views(spark, spec, loaded)
    try:
        if not views[name].isStreaming:
            return rows_of(views[name].limit(rows))
        return _first_rows(spark, spec, name, views[name], rows)
    except spark_error() as error:
        raise PipelineFailedError(what_failed(str(error))) from error


def _first_rows(spark: SparkSession, spec: PipelineSpec, name: str, view: DataFrame, rows: int) -> list[Row]:
    # every change of a group is a row, because a group's first row may come long before its last
    mode = "update" if any(flow.groups for flow in spec.plan.upstream(name)) else "append"
    with tempfile.TemporaryDirectory(prefix="moldau-preview-") as checkpoint:
        stream = view.writeStream.outputMode(mode).option("checkpointLocation", checkpoint)
        found = Path(checkpoint, "found.json")
        with state_store_for(spark, spec.plan.upstream(name)):
            running = stream.trigger(availableNow=True).foreachBatch(partial(_keep_rows, found, rows)).start()
        while len(_kept_rows(found)) < rows and not running.awaitTermination(_LOOK_S):
            pass
        running.stop()
        return _kept_rows(found)


def _keep_rows(file: Path, most: int, batch: DataFrame, _batch_id: int) -> None:
    """To a file, because a Spark Connect server calls this in another process."""
    kept = _kept_rows(file)
    if len(kept) < most:
        write_whole(file, json.dumps([*kept, *rows_of(first_of(batch, most - len(kept)))]))


def _kept_rows(file: Path) -> list[Row]:
    return list(json.loads(file.read_text("utf-8"))) if file.exists() else []
