"""A topic as a pipeline's target: how rows become records.

A result with a column `value` of text or bytes, and at most `key` beside it, goes as it is; any other row becomes one
JSON object. `sink.key` names the column that becomes the record's key, as text.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.products.pipelines.section import Section
from moldau.products.pipelines.target import DEFAULT_TIMES, FlowError, SourceTimes, Target

if TYPE_CHECKING:
    from moldau.spark import DataFrame


class TopicTarget(Target, frozen=True, kw_only=True):
    NAMED_BY = "topic"
    KEYS = (*Target.KEYS, "key")

    key: str | None

    @classmethod
    def parse(cls, sink: Section, directory: Path) -> TopicTarget:
        mode = cls.parse_mode(sink)
        return cls(mode=mode, topic=sink.topic("topic"), key=sink.text("key", default="") or None)

    def describe(self) -> tuple[str, str]:
        return f"topic {self.topic}", "at least once: a batch that a crash cuts short is written again"

    def rows_of(self, result: DataFrame) -> DataFrame:
        return to_records(result, self.key)

    def writer(
        self, pipeline: str, checkpoint_id: str, bootstrap_servers: str, times: SourceTimes
    ) -> Callable[[DataFrame, int], None]:
        return lambda batch, _: write_to_topic(batch, bootstrap_servers, str(self.topic), times)


def write_to_topic(batch: DataFrame, bootstrap_servers: str, topic: str, times: SourceTimes = DEFAULT_TIMES) -> None:
    """Writes a batch of records (columns `value` and perhaps `key`); when it returns, all are acknowledged."""
    to = batch.write.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers).option("topic", topic)
    to.options(**times.options()).mode("append").save()


def to_records(result: DataFrame, key: str | None = None) -> DataFrame:
    """The columns `value` and, if there is one, `key`. Raises FlowError if there is no column `key` names."""
    columns = result.columns
    if key is not None and key not in columns:
        raise FlowError(f"sink.key names the column {key!r}, but the SQL gives {', '.join(columns)}")
    types = dict(result.dtypes)
    goes_as_it_is = types.get("value") in ("string", "binary") and set(columns) <= {"key", "value"}
    value = "value" if goes_as_it_is else "to_json(struct(*)) as value"
    if key is None and goes_as_it_is and "key" in columns:
        key = "key"
    if key is None:
        return result.selectExpr(value)
    column = quoted(key)
    as_text = column if types[key] in ("string", "binary") else f"cast({column} as string)"
    return result.selectExpr(f"{as_text} as key", value)


def quoted(name: str) -> str:
    """`name` as a column in SQL."""
    return f"`{name.replace('`', '``')}`"
