"""A stream's reader without Spark, called as Spark calls it, over a cluster whose topics a test changes."""

from __future__ import annotations

import json
from collections.abc import Mapping

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from moldau.spark.options import parse_source_options
from moldau.spark.source.source import TopicStreamReader
from moldau.testing import Cluster


class Stream:
    """Calls a reader in Spark's order, with offsets that have passed through the checkpoint's text."""

    def __init__(self, cluster: Cluster, **options: str) -> None:
        self.options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, **options}
        self.reader = self.open()
        self.committed: dict | None = None

    def open(self) -> TopicStreamReader:
        return TopicStreamReader(parse_source_options(self.options, is_streaming=True), 2)

    def plan(self, limit: int | None = None) -> Mapping | None:
        """The end of the next batch; None if there is nothing new. Spark runs the first batch anyway."""
        start = self.committed or through_text(self.reader.initialOffset())
        end = through_text(self.reader.latestOffset(start, ReadMaxRows(limit) if limit else ReadAllAvailable()))
        return None if end == start and self.committed is not None else end

    def read(self, end: Mapping) -> list[bytes]:
        start = self.committed or through_text(self.reader.initialOffset())
        tasks = self.reader.partitions(start, dict(end))
        rows = [
            (batch.column("topic")[row].as_py(), *(batch.column(name)[row].as_py() for name in ("partition", "offset")),
             batch.column("value")[row].as_py())
            for task in tasks
            for batch in self.reader.read(task)
            for row in range(batch.num_rows)
        ]  # fmt: skip
        return [value for *_, value in sorted(rows)]

    def batch(self, limit: int | None = None) -> list[bytes]:
        end = self.plan(limit)
        if end is None:
            return []
        rows = self.read(end)
        self.committed = dict(end)
        return rows

    def die(self) -> None:
        """The driver is killed: a new reader continues from the checkpoint."""
        self.reader.stop()
        self.reader = self.open()


def through_text(offset: Mapping) -> dict:
    return json.loads(json.dumps(offset))


def add_partitions(cluster: Cluster, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(30)


def delete_records(cluster: Cluster, topic: str, before: int, partition: int = 0) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    next(iter(admin.delete_records([TopicPartition(topic, partition, before)]).values())).result(30)
