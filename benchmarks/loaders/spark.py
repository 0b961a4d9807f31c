"""The same Spark queries over a topic, with our source and sink and with Spark's own connector.

Each runs in its own interpreter: `python -m benchmarks.loaders.spark QUERY FORMAT BOOTSTRAP TOPIC RECORDS TARGET`
prints its figures as JSON. A query runs once before it is measured, to warm up the JVM and the workers.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.peers import Peer, PeerError
from benchmarks.spark_peer import ROOT, fetch_connector, spark_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS, THEIRS = "moldau", "kafka"
PACE_S = 0.02
"""The pause between the small writes that feed a micro-batch query."""
WARM_UP_BATCHES, MEASURED_BATCHES = 20, 100
PATIENCE_S = 120
PHASES = {
    "triggerExecution": "p50_ms",
    "latestOffset": "latest_offset_p50_ms",
    "queryPlanning": "planning_p50_ms",
    "addBatch": "add_batch_p50_ms",
    "walCommit": "wal_commit_p50_ms",
    "commitOffsets": "commit_offsets_p50_ms",
}
"""The phases of a micro-batch, by their names in Spark's progress."""


class Query:
    """One query. `settings`: options of the sink."""

    def __init__(self, format_name: str, bootstrap_servers: str, topic: str, target: str) -> None:
        from moldau.spark import open_session

        settings = {"spark.jars": os.environ["MOLDAU_SPARK_KAFKA_JARS"]} if format_name == THEIRS else {}
        self.session: SparkSession = open_session("moldau-bench", settings, cores=2)
        self.format_name, self.bootstrap_servers, self.topic, self.target = (
            format_name,
            bootstrap_servers,
            topic,
            target,
        )

    def _read(self) -> DataFrame:
        reader = self.session.read.format(self.format_name)
        return reader.option("kafka.bootstrap.servers", self.bootstrap_servers).option("subscribe", self.topic).load()

    def count(self) -> int:
        return self._read().count()

    def noop(self) -> None:
        self._read().write.format("noop").mode("overwrite").save()

    def aggregate(self) -> None:
        frame = self._read().selectExpr("partition", "offset % 1000 as slot", "length(value) as size")
        frame.groupBy("partition", "slot").sum("size").write.format("noop").mode("overwrite").save()

    def copy(self, **settings: str) -> None:
        writer = self._read().select("key", "value", "partition").write.format(self.format_name)
        writer = writer.option("kafka.bootstrap.servers", self.bootstrap_servers).option("topic", self.target)
        writer.options(**settings).mode("append").save()

    def stream(self, folder: str, *, has_aggregate: bool) -> list[dict[str, float]]:
        """For each micro-batch with records, the ms of its phases and of the whole, from Spark's progress."""
        from confluent_kafka import Producer

        reader = self.session.readStream.format(self.format_name)
        frame = reader.option("kafka.bootstrap.servers", self.bootstrap_servers).option("subscribe", self.topic).load()
        if has_aggregate:
            frame = frame.groupBy("partition").count()
        writer = frame.writeStream.format("noop").outputMode("update" if has_aggregate else "append")
        query = writer.option("checkpointLocation", folder).start()
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "linger.ms": 0})
        is_done = threading.Event()

        def feed() -> None:
            while not is_done.wait(PACE_S):
                producer.produce(self.topic, b"a record")
                producer.poll(0)

        feeder = threading.Thread(target=feed)
        feeder.start()
        taken: dict[int, dict[str, float]] = {}
        end_s = time.monotonic() + PATIENCE_S
        try:
            while len(taken) < WARM_UP_BATCHES + MEASURED_BATCHES and time.monotonic() < end_s:
                for progress in query.recentProgress:
                    if progress["numInputRows"]:
                        taken[progress["batchId"]] = progress["durationMs"]
                time.sleep(0.2)
        finally:
            is_done.set()
            feeder.join(timeout=10)
            query.stop()
        if len(taken) <= WARM_UP_BATCHES:
            raise SystemExit(f"only {len(taken)} micro-batches in {PATIENCE_S} s")
        return [taken[number] for number in sorted(taken)][WARM_UP_BATCHES:]


def run(name: str, query: Query, records: int) -> dict[str, float]:
    """`name`: noop, aggregate, copy, copy-at-least-once, micro-batch, micro-batch-aggregate."""
    if name.startswith("micro-batch"):
        with tempfile.TemporaryDirectory(prefix="moldau-bench-") as folder:
            taken = query.stream(folder, has_aggregate=name.endswith("aggregate"))
        return {name: statistics.median(one.get(phase, 0) for one in taken) for phase, name in PHASES.items()}
    begin = 0.0
    for _ in range(2):
        begin = time.perf_counter()
        if name == "copy-at-least-once":
            query.copy(delivery="at_least_once")
        else:
            getattr(query, name)()
    rate = records / (time.perf_counter() - begin)
    if query.count() != records:
        raise SystemExit(f"another number of rows was read than {records}")
    return {"rate": rate}


def measure(peer: Peer, topic: str, target: str, *, reader: str, records: int, cache: Path) -> dict[str, float]:
    """`reader`: a query and a format, such as `copy moldau`. Runs it in a fresh interpreter."""
    name, format_name = reader.split()
    command = [spark_python(cache), "-m", "benchmarks.loaders.spark", name, format_name]
    command += [peer.bootstrap_servers, topic, str(records), target]
    # of this checkout, not the one that the environment was made for
    environment = {**os.environ, "MOLDAU_SPARK_KAFKA_JARS": fetch_connector(cache), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    if done.returncode:
        raise PeerError(f"{reader} failed: {done.stderr.strip().splitlines()[-1:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    name, format_name, bootstrap_servers, topic, records, target = sys.argv[1:]
    query = Query(format_name, bootstrap_servers, topic, target)
    found = run(name, query, int(records))
    query.session.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
