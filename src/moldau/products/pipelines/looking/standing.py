"""The status of a pipeline without Spark: its process, the progress of each query, its changes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

import msgspec

from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.checkpoints.checkpoint import (
    Change,
    FinishedBatch,
    changed_facts,
    ends_by_source,
    newest_finished_batch,
    newest_planned_batch,
)
from moldau.products.pipelines.checkpoints.lease import Holder, holder_of
from moldau.products.pipelines.running.checkpoint_versions import chosen_start, first_offsets, lost_topics
from moldau.products.pipelines.running.group import GroupError, GroupOffsets, lag
from moldau.products.pipelines.spec.spec import PipelineQuery, PipelineSpec
from moldau.spark.source.offsets import StreamOffset, TopicIds, read_by_all, recreated_topics
from moldau.types import ZERO_UUID, TopicPartition, Uuid

MOST_PARTITIONS = 8
"""The most partitions that are listed."""


class QueryStanding(msgspec.Struct, frozen=True):
    """`batch`: the newest finished batch, None before the first. `lag`: records of its topics that a run would read;
    None if a cluster does not say, with the reason in `trouble`. `changed`: facts of the pipeline that differ from
    those of the checkpoint; such a query does not start. `refusal`: why a run would not continue with the existing
    topics; `lost`: changes of topics that it would accept. `starts`: the offsets at which it would continue."""

    name: str
    batch: int | None
    lag: int | None
    changed: dict[str, Change]
    trouble: str | None = None
    refusal: str | None = None
    lost: tuple[str, ...] = ()
    starts: dict[TopicPartition, int] = {}

    @property
    def is_refused(self) -> bool:
        return bool(self.changed) or self.refusal is not None

    @property
    def next_run(self) -> str:
        """The effect of a run, in words."""
        if self.changed:
            return f"refused: `{'`, `'.join(self.changed)}` changed; undo it, or `moldau pipeline reset`"
        if self.refusal is not None:
            return f"refused: {self.refusal}"
        goes_on = "begins" if self.batch is None else f"goes on after batch {self.batch}"
        return "; ".join([goes_on, *self.lost])

    def details(self) -> list[str]:
        """A line for each change, and one for the offsets where a run would continue."""
        lines = [
            f"`{name}` {word} {text}"
            for name, change in self.changed.items()
            for word, text in zip(("was", "is"), change, strict=True)
            if text is not None
        ]
        if self.starts:
            named = [f"{one} from offset {self.starts[one]}" for one in sorted(self.starts)[:MOST_PARTITIONS]]
            more = len(self.starts) - len(named)
            lines.append(f"reads {', '.join(named)}" + (f", and {more} more partitions" if more else ""))
        return lines


def standing_of(spec: PipelineSpec) -> tuple[Holder | None, list[QueryStanding]]:
    """The process that runs the pipeline, and the status of its queries. Changes nothing. Raises CheckpointError."""
    away: dict[ClusterAccess, str] = {}
    return holder_of(spec.checkpoint), [_standing(spec, query, away) for query in spec.queries]


def _standing(spec: PipelineSpec, query: PipelineQuery, away: dict[ClusterAccess, str]) -> QueryStanding:
    """`away`: the errors of clusters that did not answer; each is asked only once."""
    done = newest_finished_batch(query.checkpoint)
    bounds: dict[str, dict[TopicPartition, tuple[int, int]]] = {}
    there: dict[str, TopicIds] = {}
    streams = query.streams()
    for name, source in streams.items():
        if source.access in away:
            continue
        try:
            with closing(
                GroupOffsets(source.access, query.group, first_contact_timeout_ms=spec.first_contact_timeout_ms)
            ) as group:
                topics = group.topics_of(source)
                bounds[name], there[name] = group.bounds(topics), group.topic_ids(topics)
        except GroupError as error:
            away[source.access] = str(error)
    own = {name: _starts(spec, query, name, bounds[name], there, done) for name in there}
    trouble = next((away[source.access] for source in streams.values() if source.access in away), None)
    refusal, lost = _changed_topics(spec, query, there) if trouble is None else (None, ())
    return QueryStanding(
        name=query.name,
        batch=done.batch_id if done else None,
        lag=sum(lag(bounds[name], own[name]) for name in own) if trouble is None else None,
        changed=changed_facts(query.checkpoint, query.step.facts()),
        trouble=trouble,
        refusal=refusal,
        lost=lost,
        starts={one: offset for starts in own.values() for one, offset in starts.items()},
    )


def _changed_topics(
    spec: PipelineSpec, query: PipelineQuery, there: Mapping[str, TopicIds]
) -> tuple[str | None, tuple[str, ...]]:
    """Why a run would not continue with the existing topics; otherwise the changes of topics that it would accept.
    `there`: the ids of the topics, by source."""
    planned = newest_planned_batch(query.checkpoint)
    passed: list[str] = []
    for name, source in query.streams().items():
        if not there[name]:
            what = f"topic {source.topic!r} does not exist" if source.topic else f"no topic matches {source.pattern!r}"
            return f"{what} on {source.access}", ()
        if planned < 0:
            chosen = chosen_start(spec, query, name)
            before = chosen.topic_ids if isinstance(chosen, StreamOffset) else {}
        else:
            before = _end_of(query, name, planned, there).topic_ids
        lost = lost_topics(before, there[name])
        if lost and planned >= 0 and not source.skips_lost:
            return f"{', '.join(lost)}: write `lost_records: skip` in its source, or `moldau pipeline reset`", ()
        passed += lost
    return None, tuple(dict.fromkeys(passed))


def _starts(
    spec: PipelineSpec,
    query: PipelineQuery,
    name: str,
    bounds: Mapping[TopicPartition, tuple[int, int]],
    there: Mapping[str, TopicIds],
    done: FinishedBatch | None,
) -> dict[TopicPartition, int]:
    """The offsets at which a run would continue in the topics of a source. `there`: as in `_changed_topics`."""
    if done is None:
        return first_offsets(spec, query, name, bounds, there[name])
    skips_lost = query.streams()[name].skips_lost
    end = _end_of(query, name, done.batch_id, there)
    anew = recreated_topics(end.topic_ids, there[name])
    offsets = {one: first if one.topic in anew else end.offsets.get(one, first) for one, (first, _) in bounds.items()}
    return {one: max(offset, bounds[one][0]) if skips_lost else offset for one, offset in offsets.items()}


def _end_of(query: PipelineQuery, name: str, batch_id: int, there: Mapping[str, TopicIds]) -> StreamOffset:
    """The end of a batch in a source. The checkpoint does not name its sources, and two sources may match topics of one
    name, on two clusters. So for each topic, the offsets with an id on the source's cluster count; if no offsets have
    such an id, those whose id is on no other source's cluster. `there`: as in `_changed_topics`."""
    ends = ends_by_source(query.checkpoint, batch_id)
    topics = dict.fromkeys(one.topic for end in ends for one in end.offsets if query.streams()[name].reads(one.topic))
    others = [ids for other, ids in there.items() if other != name]
    ids: dict[str, Uuid] = {}
    offsets: list[dict[TopicPartition, int]] = []
    for topic in topics:
        noted = [end for end in ends if any(one.topic == topic for one in end.offsets)]
        own = [end for end in noted if _has(there[name], topic, end)]
        for end in own or [end for end in noted if not any(_has(other, topic, end) for other in others)]:
            ids[topic] = end.topic_ids.get(topic, ZERO_UUID)
            offsets.append({one: offset for one, offset in end.offsets.items() if one.topic == topic})
    return StreamOffset(read_by_all(offsets), ids)


def _has(there: TopicIds, topic: str, end: StreamOffset) -> bool:
    """Whether a cluster has the topic of these offsets. Without an id (before Kafka 2.8), the name decides."""
    now, known = there.get(topic), end.topic_ids.get(topic, ZERO_UUID)
    return now is not None and (now == known or ZERO_UUID in (now, known))
