"""Records that do not parse: counted by the query, kept in a topic of their own, with where they came from and why.

The query itself only counts them, batch by batch: a healthy topic costs nothing more. Where a finished batch had some,
its offsets are read again and those records alone go to the dead-letter topic, original bytes, key and headers
included. What is done is noted in the checkpoint, so a killed driver's batches are searched by the next one: at least
once. The group's offsets follow behind, so they never pass a record that is in neither the sink nor the topic.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.products.pipelines.checkpoints.checkpoint import (
    BatchSpan,
    CheckpointError,
    FinishedBatch,
    first_batch_start,
    write_whole,
)
from moldau.products.pipelines.page.page import PipelinePage
from moldau.products.pipelines.running.flow import times_of
from moldau.products.pipelines.running.preflight import make_topic
from moldau.products.pipelines.running.progress import BatchCounter
from moldau.products.pipelines.sources.records import RecordSource
from moldau.products.pipelines.targets.topic import write_to_topic
from moldau.spark.offsets import topic_offsets
from moldau.spark.options import nested_offsets

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession

STATE_FILE = "dead-letters.json"


class DeadLetters:
    """The dead letters of one run of a query. `count`: those kept in this run."""

    def __init__(
        self, spark: SparkSession, page: PipelinePage, checkpoint: Path, sources: Collection[RecordSource]
    ) -> None:
        """Raises CheckpointError."""
        self.count = 0
        self._spark = spark
        self._page = page
        self._checkpoint = checkpoint
        self._sources = sources
        self._state = checkpoint / STATE_FILE
        self._searched = _load(self._state)
        self._made_topics: set[str] = set()

    def catch_up(self, done: FinishedBatch, counter: BatchCounter, *, is_last: bool) -> FinishedBatch | None:
        """Keeps the dead letters up to `done`; gives the newest batch of which all are kept.

        Spark reports a batch a moment after it is finished: until then nothing happens, unless `is_last`: then a batch
        without a report is searched. Raises PreflightError if the topic cannot be made; Spark's errors.
        """
        first = 0 if self._searched is None else self._searched.batch_id + 1
        if first > done.batch_id:
            return self._searched
        if counter.reported_to < done.batch_id and not is_last:
            return self._searched
        if any(counter.dead_letters.get(batch_id, 1) for batch_id in range(first, done.batch_id + 1)):
            before = first_batch_start(self._checkpoint) if self._searched is None else self._searched.offsets
            span = BatchSpan(self._checkpoint, first, done.batch_id, before, done.offsets)
            for source in self._sources:
                self._keep(source, span)
        for batch_id in range(first, done.batch_id + 1):
            counter.dead_letters.pop(batch_id, None)
        self._searched = done
        write_whole(self._state, json.dumps({"batch": done.batch_id, "offsets": nested_offsets(done.offsets)}))
        return done

    def _keep(self, source: RecordSource, span: BatchSpan) -> None:
        letters = source.letters(self._spark, span, times_of(self._page), self._page.name)
        if letters is None:
            return
        letters = letters.persist()
        try:
            count = letters.count()
            if count:
                self._write(letters, str(source.dead_letters))
            self.count += count
        finally:
            letters.unpersist()

    def _write(self, letters: DataFrame, topic: str) -> None:
        if topic not in self._made_topics:
            make_topic(self._page, topic, partitions=1)
            self._made_topics.add(topic)
        write_to_topic(letters.coalesce(1), self._page.bootstrap_servers, topic, times_of(self._page))


def _load(path: Path) -> FinishedBatch | None:
    try:
        noted = json.loads(path.read_text("utf-8"))
        return FinishedBatch(int(noted["batch"]), topic_offsets(noted["offsets"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: not the note of a pipeline: {error}") from error
