"""Describes the effects of `moldau pipeline reset` on the targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moldau.products.pipelines.looking.standing import QueryStanding, standing_of
from moldau.products.pipelines.spec.spec import PipelineQuery, PipelineSpec
from moldau.products.pipelines.targets.target import Target
from moldau.types import TopicPartition, counted


def outcome_of(spec: PipelineSpec, starts: Mapping[TopicPartition, int]) -> Iterator[str]:
    """A line for each target: the number of records that it would get again, the effect on their rows, and the number
    of records that it would never get. `starts`: the new first offsets of the topics. Raises CheckpointError."""
    _, standings = standing_of(spec)
    for query, standing in zip(spec.queries, standings, strict=True):
        place = query.target.describe()[0]
        if standing.batch is None:
            yield f"{place} has no finished batch: nothing comes twice"
            continue
        again, never = _compared(standing, starts)
        parts = [counted(again, "record")] if again else []
        parts += [f"all rows of `{name}`" for name in _others(spec, query)]
        told = [f"gets {' and '.join(parts)} again, {_fate(query.target)}"] if parts else ["gets nothing twice"]
        told += [f"never gets {counted(never, 'record')} that it has not read yet"] if never else []
        yield f"{place} {', and '.join(told)}"


def _compared(standing: QueryStanding, starts: Mapping[TopicPartition, int]) -> tuple[int, int]:
    """The number of offsets from the new start to the query's offsets, and from the query's offsets to a later new
    start."""
    pairs = [(done, starts[one]) for one, done in standing.starts.items() if one in starts]
    return sum(max(0, done - start) for done, start in pairs), sum(max(0, start - done) for done, start in pairs)


def _others(spec: PipelineSpec, query: PipelineQuery) -> list[str]:
    """The streams of the query that are not topics, by their places in the pipeline file."""
    topics = query.streams()
    return [step.place for step in query.step.sources if step.is_stream and step.name not in topics]


def _fate(target: Target) -> str:
    if target.mode == "update" and target.places():
        return "where each row takes the place of that of its key"
    return "and will hold their rows twice"
