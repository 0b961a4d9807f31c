"""How a page stands, told without Spark: which process runs it, how far each query is, what has changed since."""

from __future__ import annotations

from contextlib import closing

import msgspec

from moldau.products.pipelines.checkpoints.checkpoint import (
    Change,
    FinishedBatch,
    changed_facts,
    newest_finished_batch,
)
from moldau.products.pipelines.checkpoints.lease import Holder, holder_of
from moldau.products.pipelines.page.page import PipelinePage, PipelineQuery
from moldau.products.pipelines.running.generations import first_offsets
from moldau.products.pipelines.running.group import GroupError, GroupOffsets, lag
from moldau.types import TopicPartition

MOST_PARTITIONS = 8
"""That are named one by one."""


class QueryStanding(msgspec.Struct, frozen=True):
    """`batch`: the newest that is finished, None before the first. `lag`: records of its topics that a run would read;
    None where a cluster does not say, and `trouble` says why. `changed`: keys of the page that are not as the
    checkpoint knows them: such a query is not started. `starts`: where a run would read on in its topics."""

    name: str
    batch: int | None
    lag: int | None
    changed: dict[str, Change]
    trouble: str | None = None
    starts: dict[TopicPartition, int] = {}

    @property
    def next_run(self) -> str:
        """What a run would do, in words."""
        if self.changed:
            return f"refused: `{'`, `'.join(self.changed)}` changed; undo it, or `moldau pipeline reset`"
        return "begins" if self.batch is None else f"goes on after batch {self.batch}"

    def details(self) -> list[str]:
        """What changed, and where a run would read on: a line each."""
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


def standing_of(page: PipelinePage) -> tuple[Holder | None, list[QueryStanding]]:
    """Who runs the page, and its queries. Changes nothing. Raises CheckpointError."""
    away: dict[str, str] = {}
    return holder_of(page.checkpoint), [_standing(page, query, away) for query in page.queries]


def _standing(page: PipelinePage, query: PipelineQuery, away: dict[str, str]) -> QueryStanding:
    """`away`: what is wrong with the clusters that have not answered, which are asked once only."""
    done = newest_finished_batch(query.checkpoint)
    behind, starts = 0, dict[TopicPartition, int]()
    streams = query.streams()
    for name, source in streams.items():
        servers = source.bootstrap_servers
        if servers in away:
            continue
        try:
            with closing(
                GroupOffsets(servers, query.group, first_contact_timeout_ms=page.first_contact_timeout_ms)
            ) as group:
                bounds = group.bounds(group.topics_of(source))
        except GroupError as error:
            away[servers] = str(error)
            continue
        own = _starts(page, query, name, bounds, done)
        behind += lag(bounds, own)
        starts |= own
    servers_of_all = [source.bootstrap_servers for source in streams.values()]
    trouble = next((away[servers] for servers in servers_of_all if servers in away), None)
    return QueryStanding(
        name=query.name,
        batch=done.batch_id if done else None,
        lag=behind if trouble is None else None,
        changed=changed_facts(query.checkpoint, query.step.facts()),
        trouble=trouble,
        starts=starts,
    )


def _starts(
    page: PipelinePage,
    query: PipelineQuery,
    source: str,
    bounds: dict[TopicPartition, tuple[int, int]],
    done: FinishedBatch | None,
) -> dict[TopicPartition, int]:
    """Where a run would read on in the topics of the source."""
    if done is None:
        return first_offsets(page, query, source, bounds)
    skips_lost = query.streams()[source].skips_lost
    offsets = {one: done.offsets.get(one, first) for one, (first, _) in bounds.items()}
    return {one: max(offset, bounds[one][0]) if skips_lost else offset for one, offset in offsets.items()}
