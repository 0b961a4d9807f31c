"""A sink as a streaming query over topics: each batch is noted, written by the tasks of Spark, committed here."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, TopicPartition

from moldau.connect.contract.describing import RowColumns
from moldau.connect.contract.shared_settings import BATCH_ROWS, ROW_COLUMNS, TOPICS_REGEX
from moldau.connect.handling.stages import RetriableError, RowsRejectedError, Stage, error_settings
from moldau.connect.running.clients import consumer_settings
from moldau.connect.running.connector import Connector
from moldau.connect.running.contexts import set_context
from moldau.connect.running.errors import REPLICATION, Errors, make_letters_topic
from moldau.connect.running.incoming import RowMaker, Shape
from moldau.connect.running.intake import REQUEST_S, committed_offsets
from moldau.connect.running.jobs import Step
from moldau.connect.running.notes import BatchError, Ranges
from moldau.connect.running.partitions import Partition, chosen_topics
from moldau.connect.running.protocol import PROGRESS_EVERY_S, Commands, Progress, Task
from moldau.connect.running.slots import Slots
from moldau.products.connect.on_spark.decoding import Decoding, Looking, Run, Writing, Written
from moldau.products.connect.on_spark.reports import REPORT, collect_reports
from moldau.products.connect.on_spark.session import access_of, open_task_session
from moldau.products.connect.on_spark.streams import LOOK_S, End, Stream
from moldau.spark import available_cores
from moldau.spark.definitions.data_sources import pickle_with_code
from moldau.spark.options import nested_offsets, offsets_to_json
from moldau.spark.source.offsets import offset_from_dict
from moldau.types import TopicPartition as Place

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession

TOPICS_AGAIN_S: Final = 30.0
"""Between two looks for named topics that did not exist."""
EARLIEST: Final = -2
"""In `startingOffsets`."""


class SparkSink:
    def __init__(self, task: Task, used: Connector, commands: Commands) -> None:
        """Raises ConfigError, AccessError, and what the class raises."""
        self.progress = Progress()
        self._task = task
        self._used = used
        self._is_stopping: threading.Event = commands.is_stopping
        self._error_settings = error_settings(task.config)
        self._errors = Errors(self._error_settings, task, commands.is_stopping)
        columns = RowColumns(used.values[ROW_COLUMNS] or used.description.row_columns)
        self._decoding = Decoding(task, columns)
        self._conversion, _ = self._decoding.open()
        self._sink = used.new(task)
        self._options = access_of(task).spark_options()
        self._consumer = Consumer(consumer_settings(task, f"connect-{task.connector}"))
        self._slots = Slots(task, partial(committed_offsets, self._consumer), commands.is_stopping.is_set)
        self._notes = self._slots.own
        """Of the slot whose batches are written: the own one, after earlier ones."""
        self._topics: list[str] = []
        self._looked_s = 0.0
        self._told_s = -PROGRESS_EVERY_S
        self._next: dict[Partition, int] = {}
        """The offset after the last batch, by partition."""
        self._shape: Shape | None = None
        self._spark: SparkSession | None = None
        self._stream = Stream(task.connector, self._load, self._write_batch)

    def start(self) -> None:
        self._spark = open_task_session(self._task, self._used.values)
        pickle_with_code(self._used.found)
        self._slots.start()
        self._notes = self._slots.own
        make_letters_topic(self._task, self._error_settings, self._used.values[REPLICATION])

    def step(self, wait_s: float) -> Step:
        if not self._stream.is_open:
            if self._notes.pending:
                self._write_pending(self._notes.pending)
                return Step.BUSY
            if not self._slots.is_settled:
                found = self._slots.next()
                self._notes = found or self._notes
                self._is_stopping.wait(LOOK_S if found is None else 0)
                return Step.BUSY
            self._topics = self._chosen()
            if not self._topics:
                self._is_stopping.wait(wait_s)
                return Step.WAITED
            self._stream.start()
        self._stream.look()
        self._look_for_topics()
        if time.monotonic() - self._told_s >= PROGRESS_EVERY_S:  # the lag is asked of the brokers
            self.progress.look(self._lag())
            self._told_s = time.monotonic()
        return Step.BUSY if self._stream.wait(min(wait_s, LOOK_S)) else Step.WAITED

    def pause(self) -> None:
        self._stream.stop()

    def close(self) -> None:
        self._stream.stop()
        self._notes.close()
        self._slots.close()
        self._consumer.close()
        self._conversion.close()

    # -- reading

    def _chosen(self) -> list[str]:
        self._looked_s = time.monotonic()
        return chosen_topics(self._task.config, self._consumer.list_topics(timeout=REQUEST_S).topics)

    def _look_for_topics(self) -> None:
        """A query finds new partitions by itself. One for a new topic is another query."""
        is_pattern = bool(self._task.config.get(TOPICS_REGEX, "").strip())
        if not is_pattern and time.monotonic() - self._looked_s >= TOPICS_AGAIN_S and self._chosen() != self._topics:
            self._stream.stop()

    def _load(self) -> DataFrame:
        """The query tells when a batch is due, and how far it reaches; `_read` reads it, also when it is repeated."""
        known = self._consumer.list_topics(timeout=REQUEST_S).topics
        partitions = [(topic, index) for topic in self._topics if topic in known for index in known[topic].partitions]
        committed = committed_offsets(self._consumer, partitions)
        starts = {Place(*one): committed.get(one, EARLIEST) for one in partitions}
        self._next = dict(committed)
        pattern = self._task.config.get(TOPICS_REGEX, "").strip()
        chosen = ("subscribePattern", f"(?!__)(?:{pattern})") if pattern else ("subscribe", ",".join(self._topics))
        reader = self._session().readStream.format("moldau").options(**self._options).option(*chosen)
        most = self._used.values[BATCH_ROWS] * available_cores()
        reader = reader.option("startingOffsets", offsets_to_json(starts)).option("maxOffsetsPerTrigger", str(most))
        return reader.option("failOnDataLoss", "false").load()

    def _read(self, ranges: Ranges) -> DataFrame:
        """The records of these offsets: a partition in one task, in order."""
        starts = {Place(*one): start for one, (start, _) in ranges.items()}
        ends = {Place(*one): end for one, (_, end) in ranges.items()}
        assigned: dict[str, list[int]] = {}
        for topic, index in ranges:
            assigned.setdefault(topic, []).append(index)
        reader = self._session().read.format("moldau").options(**self._options).option("assign", json.dumps(assigned))
        reader = reader.option("startingOffsets", offsets_to_json(starts))
        reader = reader.option("endingOffsets", offsets_to_json(ends)).option("failOnDataLoss", "false")
        return reader.option("includeHeaders", "true").load()

    def _begin_of(self, partition: Partition) -> int:
        low, _ = self._consumer.get_watermark_offsets(TopicPartition(*partition), REQUEST_S)
        return int(low)

    def _lag(self) -> int | None:
        if not self._next:
            return None
        unread = 0
        for partition, reached in dict(self._next).items():
            _, end = self._consumer.get_watermark_offsets(TopicPartition(*partition), REQUEST_S)
            unread += max(end - reached, 0)
        return unread

    # -- writing

    def _write_batch(self, _: DataFrame, end: End) -> None:
        """In a thread of Spark."""
        left: Ranges = self._new_ranges(end)
        while left:
            part = left
            if self._shape is None:
                self._shape, part = _cut(self._runs(left), left)
            self._notes.note(part)
            if self._write(part, self._shape):
                left = _after(left, part)
            else:
                self._shape = None

    def _new_ranges(self, end: End) -> Ranges:
        ranges: dict[Partition, tuple[int, int]] = {}
        for place, reached in offset_from_dict(end).offsets.items():
            one = (place.topic, place.partition)
            if one not in self._next:
                self._next[one] = self._begin_of(one)
            if self._next[one] < reached:
                ranges[one] = self._next[one], reached
        return ranges

    def _write_pending(self, ranges: Ranges) -> None:
        """A batch that was noted before, with the same records under the same number."""
        shape, part = _cut(self._runs(ranges), ranges)
        if part != ranges:
            raise BatchError(self._notes.number)
        self._notes.note(ranges)
        self._write(ranges, shape)

    def _runs(self, ranges: Ranges) -> dict[Partition, list[Run]]:
        found: dict[Partition, list[Run]] = {}
        for told in collect_reports(self._read(ranges).mapInArrow(Looking(self._decoding), REPORT)):
            for partition, runs in told.items():
                found.setdefault(partition, []).extend(runs)
        return {partition: sorted(runs, key=lambda run: run[0]) for partition, runs in sorted(found.items())}

    def _write(self, ranges: Ranges, shape: Shape) -> bool:
        """False: a record has another shape, and nothing is published."""
        maker = RowMaker(shape, self._decoding.columns, self._conversion)
        writer = self._sink.streamWriter(maker.schema, False)
        name = type(writer).__qualname__
        passed = self._errors.run(Stage.TASK_PUT, name, lambda: self._publish_rest(self._read(ranges), writer, shape))
        found: Sequence[Written] = () if passed is None else passed.value
        if any(one.differs for one in found):
            return False
        letters = [letter for one in found for letter in one.letters]
        self._notes.done(ranges, letters, self._consumer.consumer_group_metadata())
        self._next |= {one: end for one, (_, end) in ranges.items()}
        reached = nested_offsets({Place(*one): end for one, end in self._next.items()})
        records, size = sum(one.records for one in found), sum(one.size for one in found)
        self.progress.count(records, size, {topic for topic, _ in ranges}, reached)
        return True

    def _publish_rest(self, frame: DataFrame, writer: Any, shape: Shape) -> Sequence[Written]:
        """Publishes the batch without the rows that the target rejects. Raises PythonException if that is not
        tolerated."""
        try:
            return self._publish(frame, writer, shape, {})
        except RowsRejectedError:
            frame = frame.coalesce(1)  # the places of rows count in one partition of Spark
        rejected: dict[int, str] = {}
        while True:
            try:
                return self._publish(frame, writer, shape, rejected)
            except RowsRejectedError as error:
                rejected = {**rejected, **_among_all(error.rejected, rejected)}

    def _publish(self, frame: DataFrame, writer: Any, shape: Shape, rejected: Mapping[int, str]) -> Sequence[Written]:
        """Raises RetriableError, RowsRejectedError, and what the writer raises, after its `abort`."""
        notes = self._notes
        writing = Writing(self._decoding, shape, writer, notes.query_id, notes.number, dict(rejected))
        messages: list[Any] = []
        set_context(notes.query_id, notes.number, notes.slot)
        try:
            found: list[Written] = collect_reports(frame.mapInArrow(writing, REPORT))
            messages = [one.message for one in found]
            for one in found:
                if one.retriable is not None:
                    raise RetriableError(one.retriable)
            if any(one.differs for one in found):
                writer.abort(messages, notes.number)
                return found
            notes.check()
            if rejected:  # before the target has the batch: a batch that it has is not looked at again, after a crash
                notes.note(notes.pending, [letter for one in found for letter in one.letters])
                found = [one.without_letters() for one in found]
            writer.commit(messages, notes.number)
        except BaseException:
            writer.abort(messages or [None], notes.number)
            raise
        return found

    def _session(self) -> SparkSession:
        if self._spark is None:
            raise RuntimeError("not started")
        return self._spark


def _among_all(found: Sequence[tuple[int, str]], rejected: Mapping[int, str]) -> dict[int, str]:
    """Places among the rows that are left, as places among all."""
    wanted, places, skipped = dict(found), {}, sorted(rejected)
    for place, reason in sorted(wanted.items()):
        at = place
        for gone in skipped:
            at += gone <= at
        places[at] = reason
    return places


def _cut(runs: Mapping[Partition, list[Run]], ranges: Ranges) -> tuple[Shape, Ranges]:
    """The longest beginning of the ranges whose records have one shape, and that shape."""
    shape, ends = Shape(), {one: end for one, (_, end) in ranges.items()}
    for partition, found in runs.items():
        for first, one in found:
            joined = shape.joined(one)
            if joined is None:
                ends[partition] = first
                break
            shape = joined
    return shape, {one: (start, ends[one]) for one, (start, _) in ranges.items() if start < ends[one]}


def _after(ranges: Ranges, part: Ranges) -> Ranges:
    """What is left of the ranges after a part of them."""
    starts = {one: end for one, (_, end) in part.items()}
    left = {one: (starts.get(one, start), end) for one, (start, end) in ranges.items()}
    return {one: (start, end) for one, (start, end) in left.items() if start < end}
