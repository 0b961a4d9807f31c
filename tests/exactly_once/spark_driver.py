"""A Spark driver that copies a topic to its end, and kills itself at a named point: `python -m
tests.exactly_once.spark_driver`.

The kill is in wrappers of the sink's own functions, in the class of a data source that Spark sends to its Python
processes: driver, JVM and the process itself are killed with -9 at once. The driver prints a line for each batch that
Spark has recorded as finished in this life, and one when the whole source is copied.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Any

import moldau.columnar.writer as columnar_writer
from moldau.columnar.writer import TopicWriter
from moldau.spark import QUICK_START, by_target_partition, open_session
from moldau.spark.sink import transactions
from moldau.spark.sink.sink import TopicStreamWriter
from moldau.spark.source.source import TopicDataSource

POINTS = (
    "before the first produce",
    "after the first produce",
    "before EndTxn",
    "after EndTxn",
    "before Spark's commit log",
    "after Spark's commit log",
)
BATCH, AT_END, JVM = "batch", "at the end", "jvm"


class Killer:
    """The end of this life: at `point` in the batch `batch_id`."""

    def __init__(self, point: str | None, batch_id: int, processes: tuple[int, ...]) -> None:
        self.point, self.batch_id, self.processes = point, batch_id, processes

    def reach(self, point: str, batch_id: int) -> None:
        if point == self.point and batch_id >= self.batch_id:
            for process in (*self.processes, os.getpid()):
                os.kill(process, signal.SIGKILL)


def newest_commit(checkpoint: Path) -> int:
    """The last batch that Spark has recorded in a query's checkpoint; -1 before the first."""
    return max((int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")), default=-1)


class MortalWriter(TopicStreamWriter):
    """The sink's writer, in the planning, writing and committing processes of Spark."""

    killer: Killer

    def write(self, iterator: Any) -> Any:
        from pyspark import TaskContext

        batch_id = int(TaskContext.get().getLocalProperty("streaming.sql.batchId"))
        send = TopicWriter._send_request

        def send_and_die(writer: TopicWriter, *arguments: Any) -> None:
            self.killer.reach(POINTS[0], batch_id)
            send(writer, *arguments)
            self.killer.reach(POINTS[1], batch_id)

        columnar_writer.TopicWriter._send_request = send_and_die  # type: ignore[method-assign]
        try:
            return super().write(iterator)
        finally:
            columnar_writer.TopicWriter._send_request = send  # type: ignore[method-assign]

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        end = transactions.end_transaction

        def end_and_die(*arguments: Any, **more: Any) -> Any:
            self.killer.reach(POINTS[2], batchId)
            ended = end(*arguments, **more)
            self.killer.reach(POINTS[3], batchId)
            return ended

        transactions.end_transaction = end_and_die
        try:
            super().commit(messages, batchId)
        finally:
            transactions.end_transaction = end
        self.killer.reach(POINTS[4], batchId)


class MortalDataSource(TopicDataSource):
    killer: Killer

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        writer = MortalWriter(self._sink_options(), schema)
        writer.killer = self.killer
        return writer


def start_copy(
    spark: Any, bootstrap_servers: str, source: str, target: str, checkpoint: Path, records_per_batch: int
) -> Any:
    """A query of only format("moldau") that copies all present records of the topic `source`."""
    stream = spark.readStream.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
    stream = stream.option("subscribe", source).option("startingOffsets", "earliest")
    frame = stream.option("maxOffsetsPerTrigger", str(records_per_batch)).load().select("key", "value")
    rows = by_target_partition(frame, bootstrap_servers, target)
    writer = rows.writeStream.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
    writer = writer.option("topic", target).option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap-server", "--source", "--target"):
        parser.add_argument(name, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--point", choices=POINTS)
    parser.add_argument("--batch", type=int, default=0, help="the first one in which the point counts")
    parser.add_argument("--records-per-batch", type=int, default=1_000)
    parser.add_argument("--setting", action="append", default=[], help="of Spark: name=value")
    arguments = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in arguments.setting)
    spark = open_session("mortal", QUICK_START | settings, cores=2)
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    print(JVM, jvm, flush=True)
    killer = Killer(arguments.point, arguments.batch, (os.getpid(), jvm))
    spark.dataSource.register(type("MortalDataSource", (MortalDataSource,), {"killer": killer, "parallelism": 2}))
    place = (arguments.bootstrap_server, arguments.source, arguments.target, arguments.checkpoint)
    told = newest_commit(arguments.checkpoint)
    query = start_copy(spark, *place, arguments.records_per_batch)
    while not query.awaitTermination(0.05):
        noted = newest_commit(arguments.checkpoint)
        if noted > told:
            told = noted
            print(BATCH, noted, flush=True)
            killer.reach(POINTS[5], noted)
    print(AT_END, flush=True)


if __name__ == "__main__":
    sys.exit(main())
