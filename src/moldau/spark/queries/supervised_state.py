"""The state of one query, for people and programs that observe it."""

from __future__ import annotations

import msgspec

from moldau.spark.session.query_states import QueryState


class SupervisedState(msgspec.Struct, frozen=True):
    """The displayed state of one query. `lag`: records of its topics that no finished batch has read, None before the
    first look; `batch_ms`: the duration of the newest batch; `dead_letters`: records that did not parse, None if the
    query keeps none; `trouble`: why the query does not proceed, None if it does."""

    name: str
    batches: int
    records_read: int
    lag: int | None
    batch_ms: int
    state: str
    dead_letters: int | None = None
    trouble: str | None = None
    report: QueryState | None = None
    """Spark's report; None before the first."""

    @property
    def is_over(self) -> bool:
        return self.state in ("failed", "finished", "stopped")
