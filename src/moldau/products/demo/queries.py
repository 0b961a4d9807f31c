"""The Spark queries of the demo: windowed statistics and anomalies, into a topic and Parquet files."""

from __future__ import annotations

import shutil
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow.parquet as pq

from moldau.client.protocol.access import ClusterAccess
from moldau.products.demo import rolling
from moldau.products.demo.feed import LEVEL, REPLAY
from moldau.products.pipelines.checkpoints.checkpoint import FinishedBatch, newest_finished_batch
from moldau.products.pipelines.formats.text import JsonFormat
from moldau.products.pipelines.running.flow import with_watermark
from moldau.products.pipelines.running.group import GroupOffsets, lag
from moldau.products.pipelines.running.progress import BatchCounter
from moldau.products.pipelines.sources.source import DEAD_LETTERS_METRIC
from moldau.products.pipelines.sources.topic import TopicSource
from moldau.products.pipelines.targets.topic import to_records, write_to_topic

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession, StreamingQuery

WINDOW_SECONDS = 1
WATERMARK_SECONDS = 5
TRIGGER = "1 second"
SHOWN_ROWS = 200

METRICS_SCHEMA = "source string, metric string, value double"

METRIC_WINDOWS = f"""
    select window.start as window_start, window.end as window_end, _key as key,
           count(*) as records, avg(value) as mean, min(value) as minimum, max(value) as maximum,
           stddev_pop(value) as deviation
    from {{source}} group by window(_timestamp, '{WINDOW_SECONDS} seconds'), _key
"""

LINE_WINDOWS = f"""
    select window.start as window_start, window.end as window_end,
           if(level = '', '-', level) as key, count(*) as records, sum(octet_length(value)) as bytes
    from (select *, upper(regexp_extract(cast(value as string), '{LEVEL}', 1)) as level from {{source}})
    group by window(_timestamp, '{WINDOW_SECONDS} seconds'), level
"""


class Output(msgspec.Struct, frozen=True):
    """The destinations of a query's rows, and the group that shows its progress."""

    name: str
    topic: str
    parquet: Path
    checkpoint: Path
    group: str


class Query:
    """A running query of the demo, with its progress. Writes its rows to Parquet and to the topic batch by batch; a
    repeated batch replaces its Parquet files."""

    def __init__(self, result: DataFrame, output: Output, access: ClusterAccess) -> None:
        self.output = output
        self.rows = 0
        self.records = 0
        self._shown: deque[dict[str, Any]] = deque(maxlen=SHOWN_ROWS)
        self._access = access
        self._group = GroupOffsets(access, output.group)
        self._published: FinishedBatch | None = None
        self.counter = BatchCounter()
        self._keep = threading.Lock()
        writer = result.writeStream.queryName(output.name).outputMode("append")
        writer = writer.option("checkpointLocation", str(output.checkpoint)).trigger(processingTime=TRIGGER)
        self.spark_query: StreamingQuery = writer.foreachBatch(self._write).start()

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        batch.persist()
        try:
            target = self.output.parquet / f"batch={batch_id:06}"
            batch.coalesce(1).write.mode("overwrite").parquet(str(target))
            rows = [row for path in sorted(target.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
            if not rows:
                shutil.rmtree(target)
                return
            write_to_topic(to_records(batch, "key"), self._access, self.output.topic)
            with self._keep:
                self.rows += len(rows)
                self.records += sum(row.get("records", 0) for row in rows)
                self._shown.extend(row for row in rows if not row["key"].startswith(REPLAY))
        finally:
            batch.unpersist()

    def publish(self, topic: str) -> int:
        """Commits the finished batches' offsets to the group; returns the lag on `topic`. Raises GroupError."""
        bounds = self._group.bounds([topic])
        done = newest_finished_batch(self.output.checkpoint)
        if done is not None and (self._published is None or done.batch_id != self._published.batch_id):
            self._group.commit(done.offsets)
            self._published = done
        self.counter.look(self.spark_query)
        return lag(bounds, done.offsets if done else {})

    def shown(self) -> list[dict[str, Any]]:
        """The newest rows, oldest first, without rows that only the replay repeats."""
        with self._keep:
            return list(self._shown)

    def error(self) -> str | None:
        failure = self.spark_query.exception()
        return None if failure is None else str(failure)

    def stop(self) -> None:
        self.spark_query.stop()
        self._group.close()


def start_windows(spark: SparkSession, access: ClusterAccess, topic: str, output: Output, *, of_lines: bool) -> Query:
    source = TopicSource(
        access=access,
        topic=topic,
        format="binary" if of_lines else "json",
        decoder=None if of_lines else JsonFormat(schema=METRICS_SCHEMA),
        watermark=f"{WATERMARK_SECONDS} seconds",
    )
    frame = with_watermark(source.rows(source.load(spark), DEAD_LETTERS_METRIC), source)
    sql = LINE_WINDOWS if of_lines else METRIC_WINDOWS
    return Query(spark.sql(sql, source=frame), output, access)


def start_anomalies(spark: SparkSession, access: ClusterAccess, topic: str, output: Output) -> Query:
    decoder = JsonFormat(schema=METRICS_SCHEMA)
    source = TopicSource(access=access, topic=topic, format="json", decoder=decoder)
    frame = with_watermark(source.rows(source.load(spark), DEAD_LETTERS_METRIC), source)
    values = frame.where("value is not null").selectExpr(
        "_partition as partition", "_key as key", "_offset as offset", "_timestamp as timestamp", "value"
    )
    found = values.groupBy("partition").applyInPandasWithState(
        rolling.anomalies_of_partition, rolling.OUTPUT, rolling.STATE, "append", "NoTimeout"
    )
    return Query(found, output, access)
