"""A persistent query as a pipeline of one query, with its lease, checkpoint, group and supervision."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.errors import MoldauError
from moldau.products.pipelines.core.commit_metadata import GROUP_PREFIX
from moldau.products.pipelines.core.plan import FlowStep, Plan, SourceStep, TargetStep
from moldau.products.pipelines.core.plan import Query as PlanQuery
from moldau.products.pipelines.running.running_pipeline import RunningPipeline, claim_pipeline
from moldau.products.pipelines.running.stopping import StopRequest
from moldau.products.pipelines.spec.spec import PipelineQuery, PipelineSpec
from moldau.products.sql.catalog.catalog import PersistentQuery, Relation
from moldau.products.sql.engine.compiled import NAMESPACE_SETTINGS, Compiled, Place
from moldau.products.sql.engine.session import session_of
from moldau.products.sql.records.target import target_of
from moldau.spark.queries.query_set import QuerySet

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession

FLOW = "_moldau_query"
"""The view with the result of the query."""
_ID = re.compile(r"[A-Z0-9_]{1,200}")
MAX_RECORDS = 200_000
"""Of each source in a micro-batch: a killed query repeats at most this much, and its progress shows."""


def spec_of(
    query: PersistentQuery, compiled: Compiled, sink: Relation, place: Place, *, service: str, directory: Path
) -> PipelineSpec:
    """`service`: the name of the one that runs the statements. `directory`: of all checkpoints. Raises MoldauError for
    an id that is no name of a directory, as none is that `decide` gives."""
    if not _ID.fullmatch(query.id):
        raise MoldauError(f"{query.id[:100]!r} is no id of a query")
    plan, name = compiled.plan, f"{service}.{query.id}"
    sources = compiled.sources(place, session_of({}, query.properties).start, MAX_RECORDS)
    steps = tuple(
        SourceStep(name=view, place=source.relation.name, facts=source.all_facts(), watermark=source.watermark)
        for view, source in sources.items()
    )
    keeps_rows = bool(plan.links) or any(select.is_distinct for select in plan.query.selects)
    is_stateful = plan.mode == "update" or keeps_rows or plan.watermark_ms is not None
    flow = FlowStep(
        name=FLOW,
        place=query.id,
        # a query without state goes on with another text from where it was
        text=plan.query.source.text if is_stateful else "",
        reads=tuple(sources),
        groups=False,
        has_watermark=plan.watermark_ms is not None,
        is_stateful=plan.text is None or plan.deletes,
    )
    target = target_of(
        sink, None, registry=place.registry, mode=plan.mode, is_changes=plan.text is None or plan.deletes
    )
    step = TargetStep(name=sink.name, place=query.id, reads=FLOW, mode=plan.mode, facts=target.facts())
    planned = PlanQuery(sources=steps, flows=(flow,), target=step)
    checkpoint = directory / query.id

    def frame() -> DataFrame:
        from moldau.spark.definitions.late_session import session_of_flow

        return compiled.frame(session_of_flow())

    one = PipelineQuery(
        name=name,
        step=planned,
        sources=dict(sources),
        target=target,
        access=place.access,
        checkpoint=checkpoint,
        group=f"{GROUP_PREFIX}{name}",
        transactional_id=name,
        dead_letters_of=tuple(sources),
    )
    return PipelineSpec(
        plan=Plan(name, steps, (flow,), (step,)),
        access=place.access,
        queries=(one,),
        checkpoint=checkpoint,
        file_name=query.id,
        functions={FLOW: frame},
    )


def start_query(
    spec: PipelineSpec, spark: SparkSession, queries: QuerySet, stop: StopRequest, *, once: bool
) -> RunningPipeline:
    """Raises PreflightError, LeaseError, CheckpointError, FlowError, and the errors of sources and targets."""
    claimed = claim_pipeline(spec, is_shared=True)
    return RunningPipeline(claimed, spark, queries, stop=stop, once=once, settings=NAMESPACE_SETTINGS)
