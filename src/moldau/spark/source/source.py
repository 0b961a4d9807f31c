"""Topics as a Spark source: `format("moldau")`, for batches and for streams.

Columns, their types and the JSON of offsets are those of Spark's own Kafka connector, so a query switches by changing
its format. The columns are key binary, value binary, topic string, partition int, offset long, timestamp timestamp,
timestampType int and, with includeHeaders, headers array<struct<key string, value binary>>. Reading is read_committed,
unless the option `isolation` says otherwise.

`schema`, `partitions`, `initialOffset` and `latestOffset` run in a Python process on the driver's machine (one for the
life of a stream), `read` runs in the executors' Python workers. Tasks yield Arrow record batches, which
`moldau.columnar` decodes from the broker's record batches without a Python object for each record.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from moldau.columnar import PartitionRange
from moldau.errors import KafkaError
from moldau.spark.in_words import told_in_words, without_trace
from moldau.spark.options import (
    EARLIEST,
    EXACTLY_ONCE,
    LATEST,
    OptionError,
    SinkOptions,
    SourceOptions,
    parse_sink_options,
    parse_source_options,
    refuse_secrets,
    wants_headers,
)
from moldau.spark.session.connect import count_tasks, is_connect
from moldau.spark.source import offsets as planning
from moldau.spark.source.idle import IdleStream
from moldau.spark.source.offsets import StreamOffset
from moldau.spark.source.reading import SCHEMA, SCHEMA_WITH_HEADERS, Decoding, read_ranges
from moldau.spark.source.topics import SubscribedTopics
from moldau.types import TopicPartition, Uuid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FORMAT = "moldau"

COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS_COLUMN = "headers array<struct<key: string, value: binary>>"

COMMIT_AGAIN_MS = 30_000
"""The pause after a group rejected the progress."""

logger = logging.getLogger("moldau.spark")

_Offsets = Mapping[TopicPartition, int]


def register(spark: SparkSession) -> None:
    """Adds `format("moldau")` to this session, for reading and writing. Raises ExecutorError if the Python of a Spark
    Connect server lacks the package."""
    spark.dataSource.register(type("TopicDataSource", (TopicDataSource,), _known(spark)))


def decoding_format(spark: SparkSession, decoding: Decoding) -> str:
    """Registers a format like "moldau", for reading streams, with the additional column of `decoding`; returns its
    name."""
    name = f"{FORMAT}-decoding-{uuid4().hex}"
    known = {**_known(spark), "decoding": decoding, "format_name": name}
    spark.dataSource.register(type("DecodingDataSource", (TopicDataSource,), known))
    return name


def _known(spark: SparkSession) -> dict[str, Any]:
    """Attributes for a separate subclass, which carries facts of the session to the planning processes, because these
    have no session."""
    return {
        "parallelism": count_tasks(spark) if is_connect(spark) else spark.sparkContext.defaultParallelism,
        # Spark accepts booleans in any case
        "is_speculative": str(spark.conf.get("spark.speculation", "false")).strip().lower() == "true",
    }


class TopicDataSource(DataSource):
    """The data source that `register` registers."""

    parallelism = 1
    is_speculative = False
    format_name = FORMAT
    decoding: Decoding | None = None

    @classmethod
    def name(cls) -> str:
        return cls.format_name

    @told_in_words
    def schema(self) -> str | StructType:
        refuse_secrets(self.options)
        has_headers = wants_headers(self.options)
        if self.decoding is not None:
            return self.decoding.schema(include_headers=has_headers)
        return f"{COLUMNS}, {HEADERS_COLUMN}" if has_headers else COLUMNS

    @told_in_words
    def reader(self, schema: StructType) -> TopicBatchReader:
        self._check_schema(schema)
        return TopicBatchReader(parse_source_options(self.options, is_streaming=False), self.parallelism)

    # not `told_in_words`: after an error here, pyspark raises another one, and only that would be shown
    def streamReader(self, schema: StructType) -> TopicStreamReader:  # noqa: N802 - Spark's name
        self._check_schema(schema)
        return TopicStreamReader(parse_source_options(self.options, is_streaming=True), self.parallelism, self.decoding)

    @told_in_words
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from moldau.spark.sink.sink import TopicBatchWriter

        return TopicBatchWriter(self._sink_options(), schema, overwrite=overwrite)

    @told_in_words
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from moldau.spark.sink.sink import TopicStreamWriter

        return TopicStreamWriter(self._sink_options(), schema)

    def _check_schema(self, schema: StructType) -> None:
        """Raises OptionError if the user has set another schema, with which each task would fail."""
        own = from_arrow_schema(SCHEMA_WITH_HEADERS if wants_headers(self.options) else SCHEMA).simpleString()
        if self.decoding is None and schema.simpleString() != own:
            raise OptionError(f"the columns of a topic are {own}: leave out schema(...)")

    def _sink_options(self) -> SinkOptions:
        options = parse_sink_options(self.options)
        if self.is_speculative and options.delivery == EXACTLY_ONCE:
            raise OptionError(
                "spark.speculation is true: Spark then runs a task twice at the same time, and a transaction takes "
                "each partition from one task. Start Spark without it, or set delivery to at_least_once"
            )
        return options


class RangesPartition(InputPartition):
    """One task's share."""

    def __init__(self, ranges: tuple[PartitionRange, ...]) -> None:
        self.ranges = ranges


class _TaskReader:
    """The part of both readers that runs in the executors. Only plain values, because the reader is sent to the
    tasks."""

    options: SourceOptions
    decoding: Decoding | None = None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark creates an empty partition of another class if none is planned
        if isinstance(partition, RangesPartition):
            with without_trace():
                batches = read_ranges(self.options, partition.ranges)
                yield from batches if self.decoding is None else map(self.decoding.add, batches)


class TopicBatchReader(_TaskReader, DataSourceReader):
    """A range of a topic, fixed when the query is planned."""

    def __init__(self, options: SourceOptions, parallelism: int) -> None:
        self.options = options
        self.parallelism = parallelism

    @told_in_words
    def partitions(self) -> Sequence[InputPartition]:
        options = self.options
        with SubscribedTopics(options) as topics:
            (start, end, latest, log_ends), topic_ids = topics.look(partial(self._offsets, topics))
            ranges, losses = [], []
            for partition, bound in log_ends.items():
                if end[partition] > bound:
                    losses.append(f"{partition}: the partition ends at {bound}, before offset {end[partition]}")
                elif start[partition] > bound:
                    losses.append(f"{partition}: the partition ends at {bound}, before offset {start[partition]}")
                last = min(end[partition], bound)
                ranges.append(_range(partition, min(start[partition], last), last, topic_ids))
            planning.raise_losses(losses, fail_on_data_loss=options.fail_on_data_loss)
            kept, gone = planning.check_bounds(
                ranges, topics.lookup_of_those_there, fail_on_data_loss=options.fail_on_data_loss
            )
        _warn(losses + gone)
        _tell_of_waiting(kept, latest)
        return _tasks(kept, options, self.parallelism)

    def _offsets(self, topics: SubscribedTopics, partitions: Sequence[TopicPartition]) -> tuple[_Offsets, ...]:
        """For each partition: the start and end of reading, the latest offset, and the log's end if the start or the
        end is after the latest."""
        options = self.options
        start = planning.resolve_start(options, partitions, topics.lookup, topics.log_ends, topics.committed())
        end = planning.resolve_end(options, partitions, topics.lookup, topics.log_ends)
        latest = topics.lookup(dict.fromkeys(partitions, LATEST))
        if options.start.timestamps_ms or options.end.timestamps_ms:
            # a time range without records is empty; nothing is lost
            end = {partition: max(end[partition], start[partition]) for partition in partitions}
        ahead = [partition for partition in partitions if max(start[partition], end[partition]) > latest[partition]]
        return start, end, latest, {**latest, **topics.log_ends(ahead)}


class TopicStreamReader(_TaskReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of micro-batches. `maxOffsetsPerTrigger` is Spark's read limit. Trigger.AvailableNow reads, in batches
    of that limit, up to the latest offsets at the query's start."""

    def __init__(self, options: SourceOptions, parallelism: int, decoding: Decoding | None = None) -> None:
        self.options = options
        self.parallelism = parallelism
        self.decoding = decoding
        self._cluster: SubscribedTopics | None = None
        self._initial: StreamOffset | None = None
        self._is_first_batch = True
        self._is_available_now = False
        self._target: StreamOffset | None = None
        self._warned: list[str] = []
        self._newest: StreamOffset | None = None
        self._last_batch_ms: int | None = None
        self._commit_due_ms = 0
        self._idle = IdleStream(options.access, options.isolation)

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "parallelism": self.parallelism, "decoding": self.decoding}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @told_in_words
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Returns the same answer for the life of the reader: Spark asks twice, before and after the first
        `latestOffset`, and "latest" changes while records arrive."""
        if self._initial is None:
            topics = self._topics
            start, topic_ids = topics.look(
                lambda partitions: planning.resolve_start(
                    self.options, partitions, topics.lookup, topics.log_ends, topics.committed()
                )
            )
            self._initial = StreamOffset(start, dict(topic_ids))
        return planning.offset_to_dict(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self.options.max_offsets_per_trigger is None:
            return super().getDefaultReadLimit()
        return ReadMaxRows(self.options.max_offsets_per_trigger)

    @told_in_words
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The target is the result of the first `latestOffset`, as in Spark's connector. That call comes after the one
        for the initial offset, so a partition that appears between the two is not a loss."""
        self._is_available_now = True

    @told_in_words
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        with self._idle.asked():
            if not self._is_available_now:
                self._idle.wait(self._topics.wait_for_records)
            end = self._next_end(start, limit)
            if end is start and self._newest is not None:
                self._idle.is_empty(self._newest.offsets)
            else:
                self._idle.has_records()
            return end

    def _next_end(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; `start` itself without one."""
        before = planning.offset_from_dict(start)
        now = self._target or self._latest()
        if self._is_available_now:
            self._target = now
        begin = self._begin(before, now)
        now = StreamOffset(planning.not_before(begin, now.offsets, self._topics.log_ends), now.topic_ids)
        if self._target is None and self._is_delayed(begin, now):
            return start
        if isinstance(limit, ReadMaxRows):
            now = StreamOffset(self._limited(begin, now.offsets, limit.max_rows), now.topic_ids)
        # if the reader repeated a first batch, a later batch may start at the latest offset of that time
        self._is_first_batch = self._is_first_batch and before == self._initial
        if self._is_first_batch:
            # Spark runs the first batch even without new records, and asks for its start again after a restart
            now = msgspec.structs.replace(now, first_start=before)
        elif (before.offsets, before.topic_ids) == (now.offsets, now.topic_ids):
            # nothing is new: returns the same text, because Spark compares texts
            return start
        self._last_batch_ms = _monotonic_ms()
        return planning.offset_to_dict(now)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The result of the last look of `latestOffset`, without the limit; avoids a second look for the report."""
        return None if self._newest is None else planning.offset_to_dict(self._newest)

    @told_in_words
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        after = planning.offset_from_dict(end)
        if planning.offset_from_dict(start) == self._initial:
            planning.check_first_batch(self.options, after)
        # a first batch that is repeated after a restart keeps its old start, not the current latest offset
        begin = self._begin(after.first_start or planning.offset_from_dict(start), after)
        ranges = [
            _range(partition, begin[partition], after.offsets[partition], after.topic_ids)
            for partition in sorted(after.offsets)
        ]
        fail = self.options.fail_on_data_loss
        ranges = self._still_there(ranges, after)
        kept, losses = planning.check_bounds(ranges, self._topics.lookup_of_those_there, fail_on_data_loss=fail)
        self._warn_once(losses)
        return _tasks(kept, self.options, self.parallelism)

    def commit(self, end: dict[str, Any]) -> None:
        """Commits the progress to the group `kafka.group.id`, if set.

        Spark calls this one batch late, and not for the last batch of a bounded run, so pipelines commit themselves
        (moldau.products.pipelines). Each batch waits for this call, so it makes no attempts for a while if the
        coordinator is unavailable.
        """
        self._idle.has_records()
        if self.options.group_id is None or _monotonic_ms() < self._commit_due_ms:
            return
        try:
            self._topics.commit(self.options.group_id, planning.offset_from_dict(end).offsets)
        except KafkaError as error:
            # only for display: the stream continues from its checkpoint
            logger.warning("the progress was not committed to group %s: %s", self.options.group_id, error)
            self._commit_due_ms = _monotonic_ms() + COMMIT_AGAIN_MS

    def stop(self) -> None:
        self._idle.end()
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    @property
    def _topics(self) -> SubscribedTopics:
        if self._cluster is None:
            self._cluster = SubscribedTopics(self.options)
        return self._cluster

    def _latest(self) -> StreamOffset:
        topics = self._topics
        latest, topic_ids = topics.look(lambda partitions: topics.lookup(dict.fromkeys(partitions, LATEST)))
        self._newest = StreamOffset(latest, topic_ids)
        return self._newest

    def _is_delayed(self, begin: Mapping[TopicPartition, int], now: StreamOffset) -> bool:
        """The first batch is never delayed, as in Spark's connector."""
        if self._last_batch_ms is None:
            return False
        return planning.is_delayed(
            begin,
            now.offsets,
            min_offsets=self.options.min_offsets_per_trigger,
            since_last_batch_ms=_monotonic_ms() - self._last_batch_ms,
            max_delay_ms=self.options.max_trigger_delay_ms,
        )

    def _limited(
        self, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], max_offsets: int
    ) -> dict[TopicPartition, int]:
        """The end of a batch of at most `max_offsets`, not counting deleted offsets. Otherwise a stream that continues
        after a loss would first run batches over empty offsets."""
        if sum(max(0, end[partition] - begin[partition]) for partition in end) <= max_offsets:
            return dict(end)
        first = self._topics.lookup_of_those_there(dict.fromkeys(end, EARLIEST))
        there = {one: min(max(begin[one], first.get(one, begin[one])), end[one]) for one in end}
        return planning.limit_offsets(there, end, max_offsets)

    def _begin(self, before: StreamOffset, after: StreamOffset) -> dict[TopicPartition, int]:
        """The start for every partition of `after`. New partitions, and those of a topic that was created again, begin
        at their first record. Raises DataLossError for lost records, if the options say so."""
        anew = planning.recreated_topics(before.topic_ids, after.topic_ids)
        losses = [f"topic {topic} was deleted and created again" for topic in anew]
        losses += [f"{partition} is gone" for partition in before.offsets if partition not in after.offsets]
        planning.raise_losses(losses, fail_on_data_loss=self.options.fail_on_data_loss)
        self._warn_once(losses)
        known = {partition: before.offsets[partition] for partition in after.offsets if partition in before.offsets}
        begin = {partition: offset for partition, offset in known.items() if partition.topic not in anew}
        fresh = [partition for partition in after.offsets if partition not in begin]
        # offset 0, not the first existing one: records deleted before they were read are a loss (which check_bounds
        # sees)
        return {**begin, **dict.fromkeys(fresh, 0)}

    def _still_there(self, ranges: Sequence[PartitionRange], planned: StreamOffset) -> list[PartitionRange]:
        """The ranges whose topic is still the one that was planned: when a batch is repeated, the topic may have been
        deleted, or created again. Raises DataLossError for lost topics."""
        unread = dict.fromkeys(span.topic for span in ranges if span.size)
        now = self._topics.known_ids(unread)
        anew = planning.recreated_topics(planned.topic_ids, now)
        losses = [f"topic {topic} was deleted" for topic in unread if topic not in now]
        losses += [f"topic {topic} was deleted and created again" for topic in anew]
        planning.raise_losses(losses, fail_on_data_loss=self.options.fail_on_data_loss)
        self._warn_once(losses)
        return [span for span in ranges if span.size and span.topic in now and span.topic not in anew]

    def _warn_once(self, losses: Sequence[str]) -> None:
        new = [loss for loss in losses if loss not in self._warned]
        self._warned = (self._warned + new)[-1_000:]
        _warn(new)


def _tasks(ranges: Sequence[PartitionRange], options: SourceOptions, parallelism: int) -> list[RangesPartition]:
    tasks = planning.plan_tasks(
        ranges,
        parallelism=parallelism,
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
    )
    return [RangesPartition(task) for task in tasks]


def _range(partition: TopicPartition, start: int, end: int, topic_ids: Mapping[str, Uuid]) -> PartitionRange:
    known = {"topic_id": topic_ids[partition.topic]} if partition.topic in topic_ids else {}
    return PartitionRange(partition.topic, partition.partition, start, end, **known)


def _tell_of_waiting(ranges: Sequence[PartitionRange], latest: Mapping[TopicPartition, int]) -> None:
    """Records after the latest offset and before the log's end are not committed yet, and not lost."""
    for span in ranges:
        first = max(span.start_offset, latest[span.topic_partition])
        if first < span.end_offset:
            logger.warning(
                "%s: offsets %d to %d are not committed yet: their task waits until the transaction that is open "
                "before them ends",
                span.topic_partition,
                first,
                span.end_offset - 1,
            )


def _warn(losses: Sequence[str]) -> None:
    for loss in losses:
        logger.warning("records were lost, and failOnDataLoss is false: %s", loss)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
