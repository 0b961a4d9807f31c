"""A topic as a pipeline's source, or all topics whose names fit a pattern, of any Kafka cluster; with `as: table` the
newest record of each key of one topic, without those keys whose newest record has no value.

Columns: those of the schema (format json), or `value` (string, binary); and of every record, with a leading underscore,
`_key` (string), `_topic`, `_partition`, `_offset`, `_timestamp`. A JSON record that does not parse is no row: the query
counts it for each batch, and `dead_letters` keeps it. In a table it is left out.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from moldau.client.protocol.metadata import parse_bootstrap_servers
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.statement import quoted
from moldau.products.pipelines.core.times import DEFAULT_TIMES, SourceTimes
from moldau.products.pipelines.sources.source import DEAD_LETTERS_METRIC, PageHead, Source, read_anew

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark import DataFrame, SparkSession

FORMATS = ("json", "string", "binary")
STARTS = ("earliest", "latest")

MAX_OFFSETS_PER_TRIGGER = 1_000_000
"""So that the first run over a full topic shows progress, and a killed driver repeats at most this much."""

CORRUPT_COLUMN = "_moldau_corrupt"
DOES_NOT_PARSE = f"_value is null or _value.{CORRUPT_COLUMN} is not null"
"""No value, no JSON object, or a field that does not fit the schema."""

_RECORD_COLUMNS = (
    "cast(key as string) as _key",
    "topic as _topic",
    "partition as _partition",
    "offset as _offset",
    "timestamp as _timestamp",
)
_NEWEST = "max_by(struct(*), struct(timestamp, offset)) as record"
"""A key has one partition, unless partitions were added: then offsets alone do not say what is newer."""
_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")
_RECORD_NAMES = ("_key", "_topic", "_partition", "_offset", "_timestamp")


class TopicSource(Source, frozen=True, kw_only=True):
    """`topic` or `pattern`, a regular expression of whole names. `dead_letters`: the topic for records that do not
    parse; None where every record does (formats string and binary), and for a table."""

    NAMED_BY = ("topic", "pattern")
    KEYS = ("bootstrap_servers", "format", "schema", "start", "dead_letters")
    DEFAULT_EVENT_TIME = "_timestamp"
    GIVEN_COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"

    bootstrap_servers: str
    topic: str | None = None
    pattern: str | None = None
    format: str
    schema: str | None = None
    start: str = "earliest"
    dead_letters: str | None = None

    @classmethod
    def parse(cls, source: Section, head: PageHead) -> TopicSource:
        record_format = source.choice("format", FORMATS)
        if record_format == "json" and not source.has("schema"):
            source.refuse("format", "json needs a `schema`, such as `user string, amount double`")
        for key in ("schema", "event_time", "dead_letters"):
            if record_format != "json" and source.has(key):
                source.refuse(key, f"has no meaning for the format {record_format}")
        common = cls.parse_common(source)
        for key in ("pattern", "start", "dead_letters"):
            if common["as_table"] and source.has(key):
                source.refuse(key, "has no meaning for a table: it is the newest record of each key of one topic")
        topic = source.topic("topic") if source.has("topic") else None
        dead_letters = source.topic("dead_letters") if source.has("dead_letters") else f"{head.name}.dead-letters"
        pattern = _pattern(source)
        if record_format == "json" and (dead_letters == topic or (pattern and re.fullmatch(pattern, dead_letters))):
            key = "dead_letters" if source.has("dead_letters") else "pattern"
            source.refuse(key, "must not be the topic that is read: what does not parse would be read again")
        return cls(
            bootstrap_servers=servers_of(source) if source.has("bootstrap_servers") else head.bootstrap_servers,
            topic=topic,
            pattern=pattern,
            format=record_format,
            schema=source.text("schema", default="") or None,
            start=source.choice("start", STARTS, default="earliest"),
            dead_letters=dead_letters if record_format == "json" and not common["as_table"] else None,
            **common,
        )

    def describe(self) -> str:
        if self.as_table:
            return f"the newest record of each key of topic {self.topic} ({self.format})"
        which = f"topic {self.topic}" if self.topic is not None else f"topics {self.pattern}"
        return f"{which} ({self.format}), first run from the {self.start} offsets"

    def facts(self) -> Facts:
        return {"topic": self.topic, "pattern": self.pattern, "format": self.format, "schema": self.schema}

    def reads(self, topic: str) -> bool:
        return topic == self.topic if self.pattern is None else re.fullmatch(self.pattern, topic) is not None

    def load(self, spark: SparkSession, times: SourceTimes = DEFAULT_TIMES) -> DataFrame:
        subscription = ("subscribe", self.topic) if self.topic is not None else ("subscribePattern", self.pattern)
        return (
            spark.readStream.format("moldau")
            .option("kafka.bootstrap.servers", self.bootstrap_servers)
            .option(*subscription)
            .option("startingOffsets", self.start)
            .option("maxOffsetsPerTrigger", str(MAX_OFFSETS_PER_TRIGGER))
            .options(**times.options())
            .load()
        )

    def load_table(self, spark: SparkSession, times: SourceTimes = DEFAULT_TIMES) -> DataFrame:
        return read_anew(spark, self.GIVEN_COLUMNS, partial(_records, self, times))

    def given(self, records: Sequence[object], first: int) -> list[dict[str, object]]:
        """A text is the value of a record; a mapping is the JSON that it has (other formats: `value`), and beside it
        `_key`, `_value`, `_topic`, `_partition`, `_offset` and `_timestamp` of the record."""
        return [self._given(record, first + place) for place, record in enumerate(records)]

    def _given(self, record: object, offset: int) -> dict[str, object]:
        given = record if isinstance(record, Mapping) else {"_value": record}
        fields = {name: value for name, value in given.items() if name[:1] != "_"}
        unknown = [name for name in given if name not in fields and name not in (*_RECORD_NAMES, "_value")]
        if unknown:
            raise FlowError(f"a record of a topic has no {unknown[0]!r}; it has _value, {', '.join(_RECORD_NAMES)}")
        value = given.get("_value") if "_value" in given else fields if self.format == "json" else fields.get("value")
        return {
            "key": _bytes(given.get("_key")),
            "value": _bytes(value),
            "topic": given.get("_topic", self.topic or self.pattern),
            "partition": given.get("_partition", 0),
            "offset": given.get("_offset", offset),
            "timestamp": given.get("_timestamp", "1970-01-01T00:00:00Z"),
        }

    def rows(self, loaded: DataFrame, *, counted_as: str | None = None) -> DataFrame:
        from moldau.spark import expression  # a page is checked without Spark

        if self.as_table:
            keyed = loaded.where("key is not null").groupBy("key")
            loaded = keyed.agg(expression(_NEWEST)).select("record.*").where("value is not null")
        frame = loaded.selectExpr(*self.value_columns(), *_RECORD_COLUMNS)
        if self.format != "json":
            return frame
        if counted_as is not None:
            frame = frame.observe(counted_as, expression(f"count_if({DOES_NOT_PARSE}) as {DEAD_LETTERS_METRIC}"))
        names = [name for name in frame.select("_value.*").columns if name != CORRUPT_COLUMN]
        parsed = [f"_value.{quoted(name)}" for name in names]
        return frame.where(f"not ({DOES_NOT_PARSE})").selectExpr(*parsed, *_RECORD_NAMES)

    def value_columns(self) -> tuple[str, ...]:
        """The value of a record as SQL; with the format json a struct `_value`: DOES_NOT_PARSE says what is none."""
        if self.format == "json":
            schema = str(self.schema).strip()
            if schema.lower().startswith("struct<") and schema.endswith(">"):
                schema = schema[len("struct<") : -1]
            text = f"{schema}, {CORRUPT_COLUMN} string".replace("\\", "\\\\").replace("'", "\\'")
            options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT_COLUMN}')"
            return (f"from_json(cast(value as string), '{text}', {options}) as _value",)
        return ("cast(value as string) as value" if self.format == "string" else "value",)


def _records(source: TopicSource, times: SourceTimes) -> Iterator[pa.RecordBatch]:
    """Everything in the topic, as GIVEN_COLUMNS."""
    import pyarrow as pa

    from moldau.columnar.reader import read_topic

    found = read_topic(
        source.bootstrap_servers,
        str(source.topic),
        include_headers=False,
        on_data_loss="skip",  # what compaction removes meanwhile was not the newest of its key
        first_contact_timeout_ms=times.first_contact_timeout_ms,
        retry_timeout_ms=times.retry_timeout_ms,
    )
    for batch in found:
        named = {name: batch.column(name) for name in ("key", "value", "partition", "offset", "timestamp")}
        named["topic"] = pa.repeat(source.topic, batch.num_rows)
        named["timestamp"] = named["timestamp"].cast(pa.timestamp("us", tz="UTC"))
        yield pa.record_batch([named[name] for name in _COLUMNS], names=_COLUMNS)


def _bytes(value: object) -> str | None:
    """As Spark's JSON has them: base64."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    return base64.b64encode(text.encode()).decode()


def servers_of(section: Section) -> str:
    """The addresses under `bootstrap_servers`. Raises PageError."""
    servers = section.text("bootstrap_servers")
    try:
        parse_bootstrap_servers(servers)
    except ValueError as error:
        section.refuse("bootstrap_servers", f"must be host:port, or several with commas: {error}")
    return servers


def _pattern(source: Section) -> str | None:
    if not source.has("pattern"):
        return None
    pattern = source.text("pattern")
    try:
        re.compile(pattern)
    except re.error as error:
        source.refuse("pattern", f"is no regular expression: {error}")
    return pattern
