"""Records that do not parse: counted by the query, kept in a topic of their own, with where they came from and why.

The query itself only counts them, batch by batch: a healthy topic costs nothing more. Where a finished batch had some,
its offsets are read again and those records alone go to the dead-letter topic, original bytes, key and headers
included. What is done is noted in the checkpoint, so a killed driver's batches are searched by the next one: at least
once. The group's offsets follow behind, so they never pass a record that is in neither the sink nor the topic.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.products.pipelines.checkpoints.checkpoint import (
    CheckpointError,
    FinishedBatch,
    first_batch_start,
    newest_finished_batch,
    write_whole,
)
from moldau.products.pipelines.page.page import PipelinePage
from moldau.products.pipelines.running.flow import times_of
from moldau.products.pipelines.running.preflight import make_topic
from moldau.products.pipelines.running.progress import BatchCounter
from moldau.products.pipelines.sources.topic import DOES_NOT_PARSE, TopicSource
from moldau.products.pipelines.targets.topic import write_to_topic
from moldau.spark.offsets import topic_offsets
from moldau.spark.options import nested_offsets, offsets_to_json
from moldau.types import TopicPartition

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession

STATE_FILE = "dead-letters.json"

REASON_HEADER = "moldau.reason"
TOPIC_HEADER, PARTITION_HEADER, OFFSET_HEADER = "moldau.topic", "moldau.partition", "moldau.offset"


class DeadLetters:
    """The dead letters of one run of a query. `count`: those kept in this run."""

    def __init__(
        self, spark: SparkSession, page: PipelinePage, checkpoint: Path, sources: Collection[TopicSource]
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
        if self._searched is None and not self._state.exists() and not first_batch_start(checkpoint):
            # a checkpoint from before there were dead letters: they begin now
            self._searched = newest_finished_batch(checkpoint)

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
            for source in self._sources:
                self._keep(source, before, done.offsets)
        for batch_id in range(first, done.batch_id + 1):
            counter.dead_letters.pop(batch_id, None)
        self._searched = done
        write_whole(self._state, json.dumps({"batch": done.batch_id, "offsets": nested_offsets(done.offsets)}))
        return done

    def _keep(
        self, source: TopicSource, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
    ) -> None:
        starts = {one: start.get(one, 0) for one in end if source.reads(one.topic)}
        waiting = {one: end[one] for one, first in starts.items() if end[one] > first}
        if not waiting:
            return
        numbers = {topic: [int(number) for number in ends] for topic, ends in nested_offsets(waiting).items()}
        records = (
            self._spark.read.format("moldau")
            .option("kafka.bootstrap.servers", source.bootstrap_servers)
            .option("assign", json.dumps(numbers))
            .option("startingOffsets", offsets_to_json({one: starts[one] for one in waiting}))
            .option("endingOffsets", offsets_to_json(waiting))
            .option("includeHeaders", "true")
            # what retention took away meanwhile cannot be kept any more, and is no reason to end the pipeline
            .option("failOnDataLoss", "false")
            .options(**times_of(self._page).options())
            .load()
        )
        found = records.selectExpr("*", *source.value_columns()).where(DOES_NOT_PARSE)
        letters = found.selectExpr("key", "value", f"{_headers(str(source.schema))} as headers").persist()
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


def _headers(schema: str) -> str:
    """The record's own headers, and behind them ours, as SQL."""
    quoted = schema.replace("\\", "\\\\").replace("'", "\\'")
    reason = (
        "case when value is null then 'the record has no value' "
        "when try_parse_json(cast(value as string)) is null then 'the value is no JSON' "
        f"else 'the JSON does not fit the schema: {quoted}' end"
    )
    ours = {
        REASON_HEADER: reason,
        TOPIC_HEADER: "topic",
        PARTITION_HEADER: "cast(partition as string)",
        OFFSET_HEADER: "cast(offset as string)",
    }
    structs = [f"named_struct('key', '{name}', 'value', cast({sql} as binary))" for name, sql in ours.items()]
    none = "cast(array() as array<struct<key: string, value: binary>>)"
    return f"concat(coalesce(headers, {none}), array({', '.join(structs)}))"


def _load(path: Path) -> FinishedBatch | None:
    try:
        noted = json.loads(path.read_text("utf-8"))
        return FinishedBatch(int(noted["batch"]), topic_offsets(noted["offsets"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: not the note of a pipeline: {error}") from error
