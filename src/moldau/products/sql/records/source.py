"""A stream or table as a source: the rows of its topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.core.statement import quoted
from moldau.products.pipelines.core.times import DEFAULT_TIMES
from moldau.products.pipelines.formats.format import Format
from moldau.products.pipelines.formats.registry import Registry
from moldau.products.pipelines.sources.source import DEAD_LETTERS_METRIC
from moldau.products.pipelines.sources.topic import TopicSource
from moldau.products.pipelines.targets.changes import DELETED
from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.records.given import given_record
from moldau.products.sql.records.layout import (
    EVENT_TIME,
    ROW_OFFSET,
    ROW_PARTITION,
    ROW_TIME,
    columns_of,
    has_headers,
    is_table,
    key_columns,
    names_of,
)
from moldau.products.sql.records.parts import key_part, value_part
from moldau.products.sql.records.record_format import TIME, RecordFormat
from moldau.products.sql.records.texts import JsonPart

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession

HEADERS_TYPE = "array<struct<key: string, value: binary>>"


class RelationSource(TopicSource, frozen=True, kw_only=True):
    """The rows of the topic of `relation`: its columns in their order, ROWTIME, ROWPARTITION and ROWOFFSET, `_rowtime`,
    and of a table DELETED. A table's row with DELETED has only its key. A record without a value is a row of a stream.
    A record that does not decode is a dead letter, and so is a table's record without a key."""

    DEFAULT_EVENT_TIME = EVENT_TIME
    GIVEN_COLUMNS = f"{TopicSource.GIVEN_COLUMNS}, headers {HEADERS_TYPE}"
    RECORD_COLUMNS: ClassVar = {
        ROW_TIME: f"unix_millis(_value.{TIME})",
        ROW_PARTITION: "partition",
        ROW_OFFSET: "offset",
        EVENT_TIME: f"_value.{TIME}",
    }

    relation: Relation

    def columns(self) -> Sequence[str]:
        deleted = [DELETED] if is_table(self.relation) else []
        return [*names_of(columns_of(self.relation)), *self.RECORD_COLUMNS, *deleted]

    def describe(self) -> str:
        return f"{self.relation.kind.value} {self.relation.name}, {super().describe()}"

    def has_headers(self) -> bool:
        return has_headers(self.relation)

    def value_format(self) -> Format | None:
        value = self._format_of_records.value
        return value.format if isinstance(value, JsonPart) else None

    def given(self, records: Sequence[object], first: int) -> list[dict[str, object]]:
        """A record is a mapping of columns. `_key`: those of the key, as a mapping, or the value of the only one.
        `_value`: null for a record without a value, or the text of one. Also `_timestamp`, `_partition`, `_offset`, and
        `_headers`, a mapping of texts."""
        return [given_record(self.relation, record, first + place) for place, record in enumerate(records)]

    def offline(self) -> RelationSource:
        """Keys and values are JSON in a test, whatever the format is."""
        storage = msgspec.structs.replace(self.relation.storage, key_format="json", value_format="json")
        relation = msgspec.structs.replace(self.relation, storage=storage)
        return msgspec.structs.replace(self, relation=relation, decoder=_decoder(relation, None))

    def rows(self, loaded: DataFrame, counted_as: str) -> DataFrame:
        if "headers" not in loaded.columns:
            loaded = loaded.selectExpr("*", f"cast(null as {HEADERS_TYPE}) as headers")
        frame = self.parsed(self._format_of_records, loaded, counted_as)
        record = [f"{sql} as {name}" for name, sql in self.RECORD_COLUMNS.items()]
        deleted = [f"_value.{DELETED} as {DELETED}"] if is_table(self.relation) else []
        names = names_of(columns_of(self.relation))
        return frame.selectExpr(*(f"_value.{quoted(name)}" for name in names), *record, *deleted)

    @property
    def _format_of_records(self) -> RecordFormat:
        if not isinstance(self.decoder, RecordFormat):
            raise TypeError(self.decoder)
        return self.decoder


def source_of(
    relation: Relation,
    access: ClusterAccess,
    *,
    registry: Registry | None,
    dead_letters: str | None,
    start: str = "earliest",
    watermark: str | None = None,
) -> RelationSource:
    """`registry`: its address, for formats with schemas. `watermark`: how late a row may be, by `_rowtime`. Raises
    FlowError for columns that the formats cannot have."""
    return RelationSource(
        access=access,
        relation=relation,
        topic=relation.topic,
        format=relation.storage.value_format,
        decoder=_decoder(relation, registry),
        start=start,
        watermark=watermark,
        dead_letters=dead_letters,
    )


def _decoder(relation: Relation, registry: Registry | None) -> RecordFormat:
    return RecordFormat(relation=relation, key=key_part(relation, registry), value=value_part(relation, registry))


def stored_rows(spark: SparkSession, source: RelationSource) -> DataFrame:
    """The rows of all records that the topic holds now. Records that do not decode are left out, as they are by a
    running query."""
    loaded = (
        spark.read.format("moldau")
        .options(**DEFAULT_TIMES.of(source.access).spark_options())
        .option("subscribe", str(source.topic))
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .option("includeHeaders", "true" if source.has_headers() else "false")
        # records that compaction removes meanwhile were not the newest of their key
        .option("failOnDataLoss", "false")
        .load()
    )
    # two metrics of one query have two names
    return source.rows(loaded, f"{DEAD_LETTERS_METRIC}_of_{source.relation.name}")


def snapshot(spark: SparkSession, source: RelationSource) -> DataFrame:
    """What the topic holds now: of a stream all rows, of a table the newest row of each key that is not deleted,
    without DELETED."""
    rows = stored_rows(spark, source)
    if not is_table(source.relation):
        return rows
    from moldau.spark import expression  # a statement is checked without Spark

    key = [quoted(name) for name in names_of(key_columns(source.relation))]
    # A key has one partition, unless partitions were added; then offsets alone do not decide which row is newer.
    for more, newer in (([ROW_PARTITION], ROW_OFFSET), ([], f"struct({EVENT_TIME}, {ROW_OFFSET})")):
        newest = expression(f"max_by(struct(*), {newer}) as newest")
        rows = rows.groupBy(*key, *more).agg(newest).select("newest.*")
    return rows.where(f"not {DELETED}").drop(DELETED)
