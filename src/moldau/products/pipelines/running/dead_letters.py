"""Counts dead letters, and writes them to a topic with their origin and the reason.

The query itself only counts them in each batch, so a topic without them costs nothing more. If a finished batch had
some, its offsets are read again, and only those records are written to the dead-letter topic, with their original
bytes, key and headers. The checkpoint records the progress, so the next driver continues for a killed one: at least
once. The group's offsets are committed afterwards, so they never pass a record that is in neither the sink nor the
topic. If another query searched a source until now, because its target came first in the pipeline file, all batches of
this query are searched, because that query may not have reached them.

A failure here does not fail the query: the search is repeated after a pause.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.errors import MoldauError
from moldau.products.pipelines.checkpoints.checkpoint import (
    BatchSpan,
    CheckpointError,
    FinishedBatch,
    first_batch_start,
    write_whole,
)
from moldau.products.pipelines.core.failures import what_failed
from moldau.products.pipelines.running.flow import times_of
from moldau.products.pipelines.running.preflight import largest_message, make_topic
from moldau.products.pipelines.running.progress import BatchCounter
from moldau.products.pipelines.sources.records import RecordSource
from moldau.products.pipelines.sources.topic import TopicSource
from moldau.products.pipelines.spec.spec import PipelineSpec
from moldau.products.pipelines.targets.topic import write_to_topic
from moldau.spark import spark_error
from moldau.spark.options import nested_offsets
from moldau.spark.queries.namespace import as_active
from moldau.spark.source.offsets import topic_offsets

if TYPE_CHECKING:
    from moldau.spark import SparkSession

STATE_FILE = "dead-letters.json"


FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0
"""Between two attempts. Each reads the records again, and may write some dead letters twice."""
ROOM_BYTES = 65_536
"""For the parts of a dead letter besides its record: the added headers, and the frame of a batch."""
_LETTER_BYTES = (
    "coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0) + aggregate(headers, 0, (sum, one) -> "
    "sum + octet_length(one.key) + coalesce(octet_length(one.value), 0))"
)


_FAILS: tuple[type[Exception], ...] = (MoldauError, *spark_error())


class DeadLetterError(MoldauError):
    """Dead letters could not be kept; the message names the pipeline and the topic."""


class DeadLetters:
    """The dead letters of one run of a query. `count`: the number kept in this run."""

    def __init__(
        self, spark: SparkSession, spec: PipelineSpec, checkpoint: Path, sources: Mapping[str, RecordSource]
    ) -> None:
        """`sources`: by name. Raises CheckpointError."""
        self.count = 0
        self._spark = spark
        self._spec = spec
        self._checkpoint = checkpoint
        self._state = checkpoint / STATE_FILE
        noted, names = _load(self._state)
        known = sources.keys() if names is None else sources.keys() & names
        self._names = sorted(sources)
        self._searched = noted if known == sources.keys() else None
        self._kept = [(source, noted if name in known else None) for name, source in sources.items()]
        self._made_topics: set[str] = set()
        self._trouble: str | None = None
        self._pause, self._due = FIRST_PAUSE_SECONDS, 0.0

    def catch_up(self, done: FinishedBatch, counter: BatchCounter, *, is_last: bool) -> FinishedBatch | None:
        """Keeps the dead letters up to `done`; returns the newest batch whose dead letters are all kept.

        Spark reports a batch a moment after it is finished. Does nothing until then, unless `is_last`, which also
        searches a batch without a report. Raises DeadLetterError if the search fails, and until the next attempt.
        """
        first = 0 if self._searched is None else self._searched.batch_id + 1
        if first > done.batch_id:
            return self._searched
        if counter.reported_to < done.batch_id and not is_last:
            return self._searched
        if self._trouble is not None and not is_last and time.monotonic() < self._due:
            raise DeadLetterError(self._trouble)
        try:
            if any(counter.dead_letters.get(batch_id, 1) for batch_id in range(first, done.batch_id + 1)):
                # the thread that supervises serves other queries too, with sessions of their own
                with as_active(self._spark):
                    for place in range(len(self._kept)):
                        self._keep(place, done)
            self._note(done)
        except _FAILS as error:
            topics = ", ".join(dict.fromkeys(str(source.dead_letters) for source, _ in self._kept))
            reason = what_failed(str(error))
            self._trouble = (
                f"the dead letters of pipeline {self._spec.name} are not kept in the topic {topics}: {reason}"
            )
            self._due = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
            raise DeadLetterError(self._trouble) from error
        self._trouble, self._pause = None, FIRST_PAUSE_SECONDS
        for batch_id in range(first, done.batch_id + 1):
            counter.dead_letters.pop(batch_id, None)
        return done

    def _note(self, done: FinishedBatch) -> None:
        """Records, in the checkpoint and here, that all sources are searched up to `done`."""
        note = {"batch": done.batch_id, "offsets": nested_offsets(done.offsets), "sources": self._names}
        write_whole(self._state, json.dumps(note))
        self._searched = done
        self._kept = [(source, done) for source, _ in self._kept]

    def _keep(self, place: int, done: FinishedBatch) -> None:
        """Keeps the dead letters of one source. They stay kept if a later source fails."""
        source, kept = self._kept[place]
        first = 0 if kept is None else kept.batch_id + 1
        if first > done.batch_id:
            return
        before = first_batch_start(self._checkpoint) if kept is None else kept.offsets
        span = BatchSpan(self._checkpoint, first, done.batch_id, before, done.offsets)
        letters = source.letters(self._spark, span, times_of(self._spec), self._spec.name)
        if letters is not None:
            letters = letters.persist()
            try:
                ((count, largest),) = letters.selectExpr("count(*)", f"max({_LETTER_BYTES})").collect()
                if count:
                    self._make_topic(source, span, largest)
                    access = times_of(self._spec).of(self._spec.access)
                    write_to_topic(letters.coalesce(1), access, str(source.dead_letters))
                self.count += count
            finally:
                letters.unpersist()
        self._kept[place] = (source, done)

    def _make_topic(self, source: RecordSource, span: BatchSpan, largest: int) -> None:
        """With room for the largest record that the source can have, and for the `largest` of the letters: a record
        that is compressed in the source may be larger here."""
        topic = str(source.dead_letters)
        if topic in self._made_topics:
            return
        if isinstance(source, TopicSource):
            read = {one.topic for one in span.ends if source.reads(one.topic)}
            largest = max(largest, largest_message(self._spec, source.access, read))
        make_topic(self._spec, topic, partitions=1, message_bytes=largest + ROOM_BYTES)
        self._made_topics.add(topic)


def _load(path: Path) -> tuple[FinishedBatch | None, set[str] | None]:
    """The batch up to which sources are searched, and their names. None for the names: an older release did not record
    them, and searched all its sources."""
    try:
        noted = json.loads(path.read_text("utf-8"))
        names = set(map(str, noted["sources"])) if "sources" in noted else None
        return FinishedBatch(int(noted["batch"]), topic_offsets(noted["offsets"])), names
    except FileNotFoundError:
        return None, None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: not the note of a pipeline: {error}") from error
