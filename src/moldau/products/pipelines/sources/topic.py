"""Topics of a Kafka cluster as a source, by name or by pattern.

With `as: table`, the newest record of each key of one topic, without deleted keys.

Columns: those of the schema, or `value` (string, binary); and for every record `_key` (string), `_topic`, `_partition`,
`_offset`, `_timestamp`. A record that does not parse is not a row: the query counts such records in each batch, and
keeps them in `dead_letters`. A table leaves them out.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.core.cluster import TOPIC_CLUSTER_KEYS, names_cluster, parse_cluster
from moldau.products.pipelines.core.failures import FlowError, Offsets
from moldau.products.pipelines.core.keys import Choice, Key, Text, TopicName
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.times import DEFAULT_TIMES, SourceTimes
from moldau.products.pipelines.formats import all_formats, keys_of
from moldau.products.pipelines.formats.by_schema import SchemaFormat
from moldau.products.pipelines.formats.format import FORMAT, Format
from moldau.products.pipelines.formats.given import json_text
from moldau.products.pipelines.formats.text import READ, JsonFormat
from moldau.products.pipelines.sources.records import BAD_RECORDS, DEAD_LETTERS_TOPIC, STOP, RecordSource
from moldau.products.pipelines.sources.source import EVENT_TIME, MAX_RECORDS, SpecHead, read_anew

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.products.pipelines.checkpoints.checkpoint import BatchSpan
    from moldau.spark import DataFrame, SparkSession

STRING, BINARY = "string", "binary"
FORMATS = (*all_formats(), STRING, BINARY)
SKIP = "skip"
TOPIC = TopicName("topic", "The topic to read.")
PATTERN = Text("pattern", "Reads all topics whose whole names match this regular expression.", absent="or `topic`")
RECORD_FORMAT = Choice(FORMAT, FORMATS, "How a record becomes [columns](formats.md).")
START = Choice(
    "start",
    ("earliest", "latest"),
    "Where the first run starts; later runs continue where the checkpoint ends.",
    default="earliest",
)
LOST_RECORDS = Choice(
    "lost_records",
    (STOP, SKIP),
    "Whether the query ends or continues after [lost records](sources.md#topics).",
    default=STOP,
)

MAX_OFFSETS_PER_TRIGGER = MAX_RECORDS.number
"""The default limit: the first run over a full topic shows progress, and a killed driver repeats at most this much."""


_NEWEST_OF_PARTITION = "max_by(struct(*), offset) as record"
"""The last record of a key in a partition counts, as in compaction, whatever its timestamp."""
_NEWEST = "max_by(struct(*), struct(timestamp, offset)) as record"
"""A key has one partition unless partitions were added; then offsets alone do not decide which record is newer."""
_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")


class TopicSource(RecordSource, frozen=True, kw_only=True):
    """`topic` or `pattern`, a regular expression for whole names. `max_records`: per micro-batch. `skips_lost`: the
    stream continues if records are deleted before it has read them."""

    NAMED_BY = (TOPIC, PATTERN)
    KEYS = (
        *TOPIC_CLUSTER_KEYS,
        RECORD_FORMAT,
        *keys_of(all_formats()),
        START,
        BAD_RECORDS,
        DEAD_LETTERS_TOPIC,
        LOST_RECORDS,
        MAX_RECORDS,
    )
    DEFAULT_EVENT_TIME = "_timestamp"
    GIVEN_COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
    RECORD_COLUMNS: ClassVar = {
        "_key": "cast(key as string)",
        "_topic": "topic",
        "_partition": "partition",
        "_offset": "offset",
        "_timestamp": "timestamp",
    }
    ADDRESS: ClassVar = {"moldau.topic": "topic", "moldau.partition": "partition", "moldau.offset": "offset"}

    access: ClusterAccess
    topic: str | None = None
    pattern: str | None = None
    start: str = "earliest"
    max_records: int | None = None
    skips_lost: bool = False

    @classmethod
    def parse(cls, source: Section, head: SpecHead) -> TopicSource:
        record_format = RECORD_FORMAT.of(source)
        decoded = cls.parse_format(source, record_format, head)
        if decoded["decoder"] is None and source.has(EVENT_TIME):
            source.refuse(EVENT_TIME, f"has no meaning for the format {record_format}")
        common = cls.parse_common(source)
        cls.check_event_time(source, decoded["decoder"], common["event_time"])
        for key in (PATTERN, START, LOST_RECORDS):
            if common["as_table"] and source.has(key):
                source.refuse(key, "has no meaning for a table: it is the newest record of each key of one topic")
        topic = TOPIC.of(source) if source.has(TOPIC) else None
        pattern = _pattern(source)
        dead_letters = decoded["dead_letters"]
        if dead_letters is not None and (dead_letters == topic or (pattern and re.fullmatch(pattern, dead_letters))):
            named: Key = DEAD_LETTERS_TOPIC if source.has(DEAD_LETTERS_TOPIC) else PATTERN
            source.refuse(named, "must not be the topic that is read: what does not parse would be read again")
        return cls(
            access=parse_cluster(source, head.directory) if names_cluster(source) else head.access,
            topic=topic,
            pattern=pattern,
            format=record_format,
            start=START.of(source),
            max_records=cls.parse_limit(source, MAX_RECORDS),
            skips_lost=LOST_RECORDS.of(source) == SKIP,
            **decoded,
            **common,
        )

    def columns(self) -> Sequence[str] | None:
        return super().columns() if self.decoder is not None else ["value", *self.RECORD_COLUMNS]

    def describe(self) -> str:
        if self.as_table:
            return f"the newest record of each key of topic {self.topic} ({self.format})"
        which = f"topic {self.topic}" if self.topic is not None else f"topics {self.pattern}"
        return f"{which} ({self.format}), first run from the {self.start} offsets"

    def facts(self) -> Facts:
        return {"topic": self.topic, "pattern": self.pattern, **self.format_facts()}

    @property
    def names(self) -> str:
        """A regular expression for the whole names of the topics that are read."""
        return self.pattern if self.pattern is not None else re.escape(str(self.topic))

    def reads(self, topic: str) -> bool:
        return re.fullmatch(self.names, topic) is not None

    def load(self, spark: SparkSession, times: SourceTimes = DEFAULT_TIMES) -> DataFrame:
        subscription = ("subscribe", self.topic) if self.topic is not None else ("subscribePattern", self.pattern)
        return (
            spark.readStream.format(self._format(spark))
            .options(**times.of(self.access).spark_options())
            .option(*subscription)
            .option("startingOffsets", self.start)
            .option("maxOffsetsPerTrigger", str(self.max_records or MAX_OFFSETS_PER_TRIGGER))
            .option("failOnDataLoss", "false" if self.skips_lost else "true")
            .option("includeHeaders", "true" if self.has_headers() else "false")
            .load()
        )

    def has_headers(self) -> bool:
        """Whether rows need the column `headers` of `load`."""
        return False

    def value_format(self) -> Format | None:
        """The format of the records' values."""
        return self.decoder

    def _format(self, spark: SparkSession) -> str:
        """Decodes JSON in the Python worker that reads the records, so that the value of a decoded row is not sent to
        the JVM."""
        from moldau.spark import decoding_format  # a pipeline file is checked without Spark

        values = self.value_format()
        columns = values.reader(spark) if isinstance(values, JsonFormat) else None
        return "moldau" if columns is None else decoding_format(spark, READ, columns, columns.kind)

    def load_table(self, spark: SparkSession, times: SourceTimes = DEFAULT_TIMES) -> DataFrame:
        return read_anew(spark, self.GIVEN_COLUMNS, partial(_records, self, times))

    def read_again(self, spark: SparkSession, span: BatchSpan, times: SourceTimes) -> DataFrame | None:
        """As in RecordSource; the records also have the column `headers`."""
        offsets = self.offsets_of(span)
        return self.read_offsets(spark, offsets, times) if offsets else None

    def offsets_of(self, span: BatchSpan) -> Offsets:
        """The offsets of the batches in these topics, without empty partitions."""
        starts = {one: span.starts.get(one, 0) for one in span.ends if self.reads(one.topic)}
        # a pipeline file is checked without Spark
        from moldau.products.pipelines.checkpoints.checkpoint import topic_ids
        from moldau.spark.source.offsets import recreated_topics

        # a topic that was created again has only its new records
        anew = recreated_topics(topic_ids(span.checkpoint, span.first - 1), topic_ids(span.checkpoint, span.last))
        starts = {one: 0 if one.topic in anew or first > span.ends[one] else first for one, first in starts.items()}
        return {one: (first, span.ends[one]) for one, first in starts.items() if span.ends[one] > first}

    def read_offsets(self, spark: SparkSession, offsets: Offsets, times: SourceTimes) -> DataFrame:
        """The records at these offsets that still exist, in the form of `load`, with `headers`. `offsets` must not be
        empty."""
        from moldau.spark.options import nested_offsets, offsets_to_json  # a pipeline file is checked without Spark

        starts = {one: first for one, (first, _) in offsets.items()}
        ends = {one: end for one, (_, end) in offsets.items()}
        numbers = {topic: [int(number) for number in of_topic] for topic, of_topic in nested_offsets(ends).items()}
        return (
            spark.read.format("moldau")
            .options(**times.of(self.access).spark_options())
            .option("assign", json.dumps(numbers))
            .option("startingOffsets", offsets_to_json(starts))
            .option("endingOffsets", offsets_to_json(ends))
            .option("includeHeaders", "true")
            # records that retention has deleted cannot be kept any more, which is no reason to end the pipeline
            .option("failOnDataLoss", "false")
            .load()
        )

    def given(self, records: Sequence[object], first: int) -> list[dict[str, object]]:
        """A text is the value of a record. A mapping is its JSON (Avro, Protobuf: the fields in their JSON form; other
        formats: `value`), with the optional keys `_key`, `_value`, `_topic`, `_partition`, `_offset` and `_timestamp`
        of the record."""
        encode = self._encoder()
        return [self._given(record, first + place, encode) for place, record in enumerate(records)]

    def _encoder(self) -> Callable[[Mapping[str, Any]], object]:
        """A function that encodes the fields of a test as a value."""
        if isinstance(self.decoder, SchemaFormat):
            return self.decoder.encoder_of_json()
        if self.format == JsonFormat.NAMED_BY:
            return dict
        return lambda fields: fields.get("value")

    def beginning_at(self, start: str | None) -> TopicSource:
        return self if start is None else msgspec.structs.replace(self, start=start)

    def offline(self) -> TopicSource:
        if not isinstance(self.decoder, SchemaFormat):
            return self
        return msgspec.structs.replace(self, decoder=self.decoder.offline())

    def _given(self, record: object, offset: int, encode: Callable[[Mapping[str, Any]], object]) -> dict[str, object]:
        """`encode`: encodes fields as a value."""
        given = record if isinstance(record, Mapping) else {"_value": record}
        fields = {name: value for name, value in given.items() if name[:1] != "_"}
        unknown = [name for name in given if name not in fields and name not in (*self.RECORD_COLUMNS, "_value")]
        if unknown:
            raise FlowError(
                f"a record of a topic has no {unknown[0]!r}; it has _value, {', '.join(self.RECORD_COLUMNS)}"
            )
        value = given["_value"] if "_value" in given else encode(fields)
        return {
            "key": _bytes(given.get("_key")),
            "value": _bytes(value),
            "topic": given.get("_topic", self.topic or self.pattern),
            "partition": given.get("_partition", 0),
            "offset": given.get("_offset", offset),
            "timestamp": given.get("_timestamp", "1970-01-01T00:00:00Z"),
        }

    def rows(self, loaded: DataFrame, counted_as: str) -> DataFrame:
        if not self.as_table:
            return super().rows(loaded, counted_as)
        from moldau.spark import expression  # a pipeline file is checked without Spark

        newest = loaded.where("key is not null")
        for columns, record in ((("key", "partition"), _NEWEST_OF_PARTITION), (("key",), _NEWEST)):
            newest = newest.groupBy(*columns).agg(expression(record)).select("record.*")
        return super().rows(newest.where("value is not null"), counted_as)

    def plain_columns(self, loaded: DataFrame) -> Sequence[str]:
        return ("cast(value as string) as value" if self.format == STRING else "value",)


def _records(source: TopicSource, times: SourceTimes) -> Iterator[pa.RecordBatch]:
    """All records of the topic, as GIVEN_COLUMNS."""
    import pyarrow as pa

    from moldau.columnar.reader import read_topic

    found = read_topic(
        times.of(source.access),
        str(source.topic),
        include_headers=False,
        on_data_loss="skip",  # records that compaction removes meanwhile were not the newest of their key
    )
    for batch in found:
        named = {name: batch.column(name) for name in ("key", "value", "partition", "offset", "timestamp")}
        named["topic"] = pa.repeat(source.topic, batch.num_rows)
        named["timestamp"] = named["timestamp"].cast(pa.timestamp("us", tz="UTC"))
        yield pa.record_batch([named[name] for name in _COLUMNS], names=_COLUMNS)


def _bytes(value: object) -> str | None:
    """In base64, as in Spark's JSON."""
    if value is None:
        return None
    if not isinstance(value, bytes):
        value = (value if isinstance(value, str) else json_text(value)).encode()
    return base64.b64encode(value).decode()


def _pattern(source: Section) -> str | None:
    pattern = PATTERN.if_given(source)
    if pattern is None:
        return None
    try:
        re.compile(pattern)
    except re.error as error:
        source.refuse(PATTERN, f"is no regular expression: {error}")
    return pattern
