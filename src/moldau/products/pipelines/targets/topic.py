"""A topic as a target: converts rows to records.

If a result has a column `value` of text or bytes, and besides it at most `key` and the columns that name the input
record, it is written unchanged, with the key in its column `key`. Any other row becomes one JSON object, or with a
schema (`format: avro`, `protobuf`, or `json` with a JSON Schema) one value of that format. `key` in the pipeline file
names the column for the record's key, as text; without it, only rows that are written unchanged have a key.

By default each batch is one transaction, which also commits the source offsets to the pipeline's group.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.core.cluster import TOPIC_CLUSTER_KEYS, names_cluster, parse_cluster
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.keys import Choice, Text, TopicName
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.statement import quoted
from moldau.products.pipelines.formats import JSON, keys_of, parse_written, writable_formats
from moldau.products.pipelines.formats.by_schema import SchemaFormat
from moldau.products.pipelines.formats.format import FORMAT
from moldau.products.pipelines.formats.json_text import json_of_row
from moldau.products.pipelines.targets.target import Target, TargetQuery, refuse_double_columns

ORIGIN_TYPES = {"_topic": "string", "_partition": "int", "_offset": "bigint"}
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once", "at_least_once"
TOPIC = TopicName("topic", "The [topic](targets.md#topics) to write.")
KEY = Text(
    "key", "The column that becomes the record's key, as text.", absent="none; of a row that is only a `value`, `key`"
)
DELIVERY = Choice(
    "delivery",
    (EXACTLY_ONCE, AT_LEAST_ONCE),
    "Whether a batch is a [transaction](operating.md#delivery).",
    default=EXACTLY_ONCE,
)
RECORD_FORMAT = Choice(
    FORMAT,
    (JSON, *writable_formats()),
    "The format of the records, [with a schema](formats.md#writing-with-a-schema).",
    default=JSON,
)

if TYPE_CHECKING:
    from moldau.spark import DataFrame


class TopicTarget(Target, frozen=True, kw_only=True):
    NAMED_BY = TOPIC
    KEYS = (*Target.KEYS, *TOPIC_CLUSTER_KEYS, KEY, DELIVERY, RECORD_FORMAT, *keys_of(writable_formats()))

    key: str | None
    delivery: str = EXACTLY_ONCE
    format: SchemaFormat | None = None

    @classmethod
    def parse(cls, sink: Section, directory: Path) -> TopicTarget:
        mode = cls.parse_mode(sink)
        delivery = DELIVERY.of(sink)
        return cls(
            mode=mode,
            topic=TOPIC.of(sink),
            access=parse_cluster(sink, directory) if names_cluster(sink) else None,
            key=KEY.if_given(sink),
            delivery=delivery,
            format=parse_written(sink, RECORD_FORMAT.of(sink), directory),
        )

    def describe(self) -> tuple[str, str]:
        where = f"topic {self.topic}" + (f" on {self.access}" if self.access is not None else "")
        if self.delivery == AT_LEAST_ONCE:
            return where, "at least once: a batch that a crash cuts short is written again"
        return where, "exactly once: one transaction for each batch"

    def key_columns(self) -> tuple[str, ...]:
        return () if self.key is None else (self.key,)

    def rows_of(self, result: DataFrame) -> DataFrame:
        refuse_double_columns(result.columns, in_any_case=False)
        return to_records(result, self.key, self.format)

    @property
    def commits_offsets(self) -> bool:
        return self.delivery == EXACTLY_ONCE

    def writer(self, query: TargetQuery) -> Callable[[DataFrame, int], None]:
        from moldau.spark import by_target_partition  # a pipeline file is checked without Spark

        access, topic = query.times.of(query.access), str(self.topic)
        if self.delivery == AT_LEAST_ONCE:
            return lambda batch, _: write_to_topic(batch, access, topic)
        options = {
            "kafka.transactional.id": query.transactional_id,
            "kafka.group.id": query.group,
            "checkpointLocation": str(query.checkpoint),
            "sourceTopics": json.dumps(query.source_topics),
        }
        if query.metadata:
            options["groupNote"] = query.metadata

        def write(batch: DataFrame, batch_id: int) -> None:
            rows = by_target_partition(batch, access, topic)
            _save(rows, access, topic, {**options, "batchId": str(batch_id)})

        return write


def write_to_topic(batch: DataFrame, access: ClusterAccess, topic: str) -> None:
    """Writes a batch of records (columns `value` and optionally `key`), at least once; all are acknowledged when it
    returns."""
    _save(batch, access, topic, {"delivery": AT_LEAST_ONCE})


def _save(rows: DataFrame, access: ClusterAccess, topic: str, options: Mapping[str, str]) -> None:
    to = rows.write.format("moldau").options(**access.spark_options()).option("topic", topic)
    to.options(**options).mode("append").save()


def to_records(result: DataFrame, key: str | None = None, written_as: SchemaFormat | None = None) -> DataFrame:
    """The columns `value` and optionally `key`, and if the result has them, the columns that name the input record in
    the sink's errors. Raises FlowError if the column in `key` is absent, or a row does not fit the format."""
    columns = result.columns
    origins = origins_of(result)
    if key is not None and key not in columns:
        raise FlowError(f"`key` names the column {key!r}, but the SQL gives {', '.join(columns)}")
    types = dict(result.dtypes)
    goes_as_it_is = types.get("value") in ("string", "binary") and set(columns) <= {"key", "value", *origins}
    if key is None and goes_as_it_is and "key" in columns:
        key = "key"
    keys = [] if key is None else [f"{_as_text(key, types[key])} as key"]
    if written_as is not None:
        fields = [quoted(name) for name in columns if name not in origins]
        rows = result.selectExpr(*keys, *origins, f"struct({', '.join(fields)}) as fields")
        return written_as.encoded(rows, "fields")
    value = "value" if goes_as_it_is else f"{json_of_row(result)} as value"
    return result.selectExpr(*keys, value, *origins)


def origins_of(result: DataFrame) -> list[str]:
    """The columns that name a row's input record, if it has all of them."""
    types = dict(result.dtypes)
    given = [name for name, kind in ORIGIN_TYPES.items() if types.get(name) == kind]
    return given if len(given) == len(ORIGIN_TYPES) else []


def _as_text(name: str, kind: str) -> str:
    return quoted(name) if kind in ("string", "binary") else f"cast({quoted(name)} as string)"
