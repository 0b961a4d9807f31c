"""Reads a query's checkpoint, commits finished offsets to its group, and computes its lag.

Every look reads the newest finished batch from Spark's checkpoint, keeps its dead letters, and commits its source
offsets to the query's group, unless the target did so in the batch's transaction. The group is therefore never ahead of
the target, and the next driver commits the last batch of a killed one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from moldau.client.protocol.access import ClusterAccess
from moldau.ports import Dialer
from moldau.products.pipelines.checkpoints.checkpoint import (
    BatchSpan,
    CheckpointError,
    FinishedBatch,
    newest_finished_batch,
    unfinished_batch,
)
from moldau.products.pipelines.core.commit_metadata import metadata_of
from moldau.products.pipelines.core.failures import (
    error_of_values,
    flow_that_failed,
    line_that_failed,
    what_failed,
)
from moldau.products.pipelines.running.checkpoint_versions import first_offsets
from moldau.products.pipelines.running.dead_letters import DeadLetterError, DeadLetters
from moldau.products.pipelines.running.failing_record import RecordSearch
from moldau.products.pipelines.running.flow import metric_of
from moldau.products.pipelines.running.group import GroupError, GroupOffsets, lag
from moldau.products.pipelines.running.progress import BatchCounter
from moldau.products.pipelines.sources.records import RecordSource
from moldau.products.pipelines.spec.spec import PipelineQuery, PipelineSpec
from moldau.spark import is_connect
from moldau.spark.queries.supervised_state import SupervisedState
from moldau.transport.tcp import TCP
from moldau.types import TopicPartition

if TYPE_CHECKING:
    from moldau.spark import SparkSession, StreamingQuery


Bounds = dict[TopicPartition, tuple[int, int]]
"""The first and end offsets of partitions."""

MOST_NAMED = 4
"""The most partitions that are listed for a failed batch."""


class QueryProgress:
    """The progress of one query, across all of its restarts. Close it."""

    def __init__(
        self, spark: SparkSession, spec: PipelineSpec, query: PipelineQuery, metadata: str, dialer: Dialer = TCP
    ) -> None:
        """`metadata`: committed with the offsets of the group. Raises CheckpointError."""
        self._metadata = metadata
        self._spark = spark
        self._spec = spec
        self._query = query
        streams = query.streams()
        kept = {
            name: source
            for name, source in query.sources.items()
            if isinstance(source, RecordSource) and source.dead_letters is not None and name in query.dead_letters_of
        }
        # another query keeps the dead letters of the other sources, so nothing would remove their counts here
        self._counter = BatchCounter([metric_of(name) for name in kept])
        self._dead_letters = DeadLetters(spark, spec, query.checkpoint, kept) if kept else None
        self._groups = {
            source.access: GroupOffsets(
                source.access,
                query.group,
                dialer=dialer,
                first_contact_timeout_ms=spec.first_contact_timeout_ms,
            )
            for source in streams.values()
        }
        self._published: FinishedBatch | None = None
        self._trouble_since: float | None = None
        self._search: RecordSearch | None = None
        self._searched: tuple[int, tuple[str | None, ...]] | None = None
        """The batch and the failure of the current search."""
        self.reaches_clusters = True
        """Whether the last look reached the clusters; while it is false, no batch ends."""

    @property
    def batches(self) -> int:
        """The number of finished batches with records."""
        return self._counter.batches

    def close(self) -> None:
        self.end_search()
        for group in self._groups.values():
            group.close()

    def count(self, running: StreamingQuery) -> None:
        """Adds Spark's new reports."""
        self._counter.look(running)

    def look(self, state: str, *, is_last: bool = False) -> SupervisedState:
        """Shows an unreachable cluster and asks it again, and shows dead letters that cannot be kept and keeps them
        later. Raises GroupError or DeadLetterError if that lasts longer than the pipeline's `retry_timeout`, and at the
        last look, because the group's offsets then stay as they are."""
        behind: int | None = None
        trouble: str | None = None
        try:
            behind = self._publish(is_last=is_last)
            self._trouble_since, self.reaches_clusters = None, True
        except (GroupError, DeadLetterError) as error:
            self.reaches_clusters = not isinstance(error, GroupError)
            now = time.monotonic()
            self._trouble_since = self._trouble_since or now
            lasted = now - self._trouble_since
            if is_last or lasted * 1_000 > self._spec.retry_timeout_ms:
                raise
            left = self._spec.retry_timeout_ms / 1_000 - lasted
            trouble = f"{error}; trying for another {left:.0f} s"
        return self.state(state, behind=behind, trouble=trouble)

    def state(self, state: str, *, behind: int | None = None, trouble: str | None = None) -> SupervisedState:
        return SupervisedState(
            name=self._query.name,
            batches=self._counter.batches,
            records_read=self._counter.records,
            lag=behind,
            batch_ms=self._counter.batch_ms,
            state=state,
            dead_letters=self._dead_letters.count if self._dead_letters is not None else None,
            trouble=trouble,
            report=self._counter.report,
        )

    def reason(self, error: Exception) -> str:
        """As `what_failed`."""
        return what_failed(str(error))

    def explain(self, text: str) -> str:
        """A sentence from Spark's report of the error that ended the query: the error, the step and line of the
        pipeline file, and the batch's records, or the one that failed if it is found."""
        said = [what_failed(text), *self._step_at_work(text)]
        with suppress(CheckpointError):
            batch = unfinished_batch(self._query.checkpoint)
            if batch is not None:
                found = self._search.found if self._search is not None and self._looked_for(text, batch) else None
                said.append(_told(batch) if found is None else f"in batch {batch.last}, at the record {found}")
        return "; ".join(said)

    def begin_search(self, text: str) -> None:
        """Starts the search for the record that made the query fail, unless it was done. `text`: Spark's report."""
        if error_of_values(text) is None or is_connect(self._spark):
            return
        with suppress(CheckpointError):
            batch = unfinished_batch(self._query.checkpoint)
            if batch is not None and batch.ends and not self._looked_for(text, batch):
                self.end_search()
                failure = self._failure(text)
                self._searched = (batch.last, failure)
                self._search = RecordSearch(
                    self._spark, self._spec, self._query, batch, lambda other: self._failure(other) == failure
                )

    def is_searching(self) -> bool:
        return self._search is not None and self._search.is_running()

    def end_search(self) -> None:
        if self._search is not None:
            self._search.end()

    def _looked_for(self, text: str, batch: BatchSpan) -> bool:
        return self._searched == (batch.last, self._failure(text))

    def _failure(self, text: str) -> tuple[str | None, ...]:
        """Equal for reports of the same failure: its class and its line."""
        return (error_of_values(text), *self._step_at_work(text))

    def _step_at_work(self, text: str) -> Iterator[str]:
        spec = self._spec
        flows = [flow for flow in self._query.step.flows if flow.name not in spec.functions]
        found = flow_that_failed(text, flows)
        if found is not None:
            flow, number, line = found
            yield f"in `{flow.place}` ({spec.file_name}:{flow.line}), line {number} of its SQL: `{line}`"
        if spec.functions:
            lines = {file: line_that_failed(text, str(file.resolve())) for file in spec.files}
            yield from (f"in {file}:{line}" for file, line in lines.items() if line is not None)

    def _publish(self, *, is_last: bool) -> int:
        """Keeps and commits newly finished batches, then returns the lag."""
        bounds = {access: self._bounds(access, group) for access, group in self._groups.items()}
        done = newest_finished_batch(self._query.checkpoint)
        if done is not None and self._dead_letters is not None:
            done = self._dead_letters.catch_up(done, self._counter, is_last=is_last)
        offsets = done.offsets if done else self._first_offsets(bounds)
        if done is not None and (self._published is None or done.batch_id != self._published.batch_id):
            metadata = metadata_of(done.batch_id, self._metadata)
            for access, group in self._groups.items():
                if not (self._query.target.commits_offsets and access == self._query.access):
                    here = {one: offset for one, offset in offsets.items() if one in bounds[access]}
                    group.commit(here, metadata)
            self._published = done
        return sum(lag(of_cluster, offsets) for of_cluster in bounds.values())

    def _first_offsets(self, bounds: Mapping[ClusterAccess, Bounds]) -> dict[TopicPartition, int]:
        """The start of the first batch; earlier records do not count as lag. `bounds`: by cluster."""
        offsets: dict[TopicPartition, int] = {}
        for name, source in self._query.streams().items():
            access = source.access
            own = {one: range_ for one, range_ in bounds[access].items() if source.reads(one.topic)}
            topic_ids = self._groups[access].topic_ids(sorted({one.topic for one in own}))
            offsets |= first_offsets(self._spec, self._query, name, own, topic_ids)
        return offsets

    def _bounds(self, access: ClusterAccess, group: GroupOffsets) -> Bounds:
        """The bounds of all topics that the query reads on one cluster."""
        topics: list[str] = []
        for source in self._query.streams().values():
            if source.access == access:
                topics += group.topics_of(source)
        return group.bounds(list(dict.fromkeys(topics)))


def _told(batch: BatchSpan) -> str:
    read = {one: (batch.starts.get(one, 0), end - 1) for one, end in sorted(batch.ends.items())}
    some = [f"{one} offsets {first} to {last}" for one, (first, last) in read.items() if last >= first]
    more = len(some) - MOST_NAMED
    of = ": " + ", ".join(some[:MOST_NAMED]) if some else ""
    return f"in batch {batch.last}{of}" + (f", and of {more} more partitions" if more > 0 else "")
