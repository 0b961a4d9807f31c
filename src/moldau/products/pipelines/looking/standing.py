"""How a page stands, told without Spark: which process runs it, how far each query is, what has changed since."""

from __future__ import annotations

from contextlib import closing

import msgspec

from moldau.products.pipelines.checkpoints.checkpoint import changed_facts, newest_finished_batch
from moldau.products.pipelines.checkpoints.lease import Holder, holder_of
from moldau.products.pipelines.page.page import PipelinePage, PipelineQuery
from moldau.products.pipelines.running.group import GroupError, GroupOffsets, lag


class QueryStanding(msgspec.Struct, frozen=True):
    """`batch`: the newest that is finished, None before the first. `lag`: records of its topics that no finished batch
    has read; None where a cluster does not say, and `trouble` says why. `changed`: keys of the page that are not as the
    checkpoint knows them: such a query is not started."""

    name: str
    batch: int | None
    lag: int | None
    changed: tuple[str, ...]
    trouble: str | None = None

    @property
    def next_run(self) -> str:
        """What a run would do, in words."""
        if self.changed:
            return f"refused: `{'`, `'.join(self.changed)}` changed; undo it, or `moldau pipeline reset`"
        return "begins" if self.batch is None else f"goes on after batch {self.batch}"


def standing_of(page: PipelinePage) -> tuple[Holder | None, list[QueryStanding]]:
    """Who runs the page, and its queries. Changes nothing. Raises CheckpointError."""
    away: dict[str, str] = {}
    return holder_of(page.checkpoint), [_standing(page, query, away) for query in page.queries]


def _standing(page: PipelinePage, query: PipelineQuery, away: dict[str, str]) -> QueryStanding:
    """`away`: what is wrong with the clusters that have not answered, which are asked once only."""
    done = newest_finished_batch(query.checkpoint)
    behind = 0
    streams = query.streams().values()
    for source in streams:
        servers = source.bootstrap_servers
        if servers in away:
            continue
        try:
            with closing(
                GroupOffsets(servers, query.group, first_contact_timeout_ms=page.first_contact_timeout_ms)
            ) as group:
                behind += lag(group.bounds(group.topics_of(source)), done.offsets if done else {})
        except GroupError as error:
            away[servers] = str(error)
    trouble = next((away[source.bootstrap_servers] for source in streams if source.bootstrap_servers in away), None)
    return QueryStanding(
        name=query.name,
        batch=done.batch_id if done else None,
        lag=behind if trouble is None else None,
        changed=tuple(changed_facts(query.checkpoint, query.step.facts())),
        trouble=trouble,
    )
