"""Reads a topic into Arrow: our columns compared with confluent-kafka.

Each reader runs in its own interpreter: `python -m benchmarks.loaders.columns READER BOOTSTRAP TOPIC RECORDS` prints
records/s.
"""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.peers import Peer, PeerError
from benchmarks.spark_peer import ROOT


def with_columnar(bootstrap_servers: str, topic: str, records: int) -> float:
    from moldau.columnar import read_topic

    begin = time.perf_counter()
    rows = sum(batch.num_rows for batch in read_topic(bootstrap_servers, topic))
    return _rate(rows, records, begin)


def with_confluent_kafka(bootstrap_servers: str, topic: str, records: int) -> float:
    """Reads into the same five columns, with queues so large that the network is not the limit."""
    import pyarrow as pa
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "moldau-bench",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1_048_576,
            "fetch.message.max.bytes": 8_388_608,
        }
    )
    begin = time.perf_counter()
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    rows = 0
    while rows < records:
        messages = consumer.consume(50_000, timeout=5)
        if not messages:
            break
        batch = pa.record_batch(
            {
                "key": pa.array([message.key() for message in messages], pa.binary()),
                "value": pa.array([message.value() for message in messages], pa.binary()),
                "partition": pa.array([message.partition() for message in messages], pa.int32()),
                "offset": pa.array([message.offset() for message in messages], pa.int64()),
                "timestamp": pa.array([message.timestamp()[1] for message in messages], pa.timestamp("ms", "UTC")),
            }
        )
        rows += batch.num_rows
    rate = _rate(rows, records, begin)
    consumer.close()
    return rate


def _rate(rows: int, records: int, begin: float) -> float:
    if rows != records:
        raise SystemExit(f"read {rows} of {records} records")
    return rows / (time.perf_counter() - begin)


READERS = {
    "columnar": with_columnar,
    "confluent-kafka": with_confluent_kafka,
}


def measure(peer: Peer, topic: str, *, reader: str, records: int) -> dict[str, float]:
    """Runs one reader in a fresh interpreter; gives {"rate": records/s}."""
    command = [sys.executable, "-m", "benchmarks.loaders.columns", reader, peer.bootstrap_servers, topic, str(records)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise PeerError(f"{reader} failed: {done.stderr.strip().splitlines()[-1:]}")
    return {"rate": float(done.stdout.split()[-1])}


if __name__ == "__main__":
    print(READERS[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4])))
