"""Starts in Python, each in a fresh interpreter: the test kit's first record, a second cluster, `moldau --help`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

FIRST_RECORD = """
import time
begin = time.perf_counter()
import moldau.testing
from confluent_kafka import Producer

def acknowledged(cluster):
    errors = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
    producer.produce("first", b"record", on_delivery=lambda error, _: errors.append(error))
    if producer.flush(20) or errors != [None]:
        raise SystemExit(f"not acknowledged: {errors}")

with moldau.testing.Cluster(settings={"num.partitions": "1"}) as cluster:
    acknowledged(cluster)
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    with moldau.testing.Cluster() as second:
        started = time.perf_counter() - begin
print(first, started)
"""


def in_process(rounds: int) -> dict[str, float]:
    """Medians: from import to the first acknowledged record in a fresh interpreter, and a second cluster in that
    process."""
    firsts, seconds = [], []
    for _ in range(rounds):
        done = subprocess.run([sys.executable, "-c", FIRST_RECORD], capture_output=True, text=True, check=True)
        first, second = done.stdout.split()
        firsts.append(float(first) * 1000)
        seconds.append(float(second) * 1000)
    return {"first_record_ms": statistics.median(firsts), "second_cluster_ms": statistics.median(seconds)}


def help_text(rounds: int) -> dict[str, float]:
    """The median time of `moldau --help`."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-m", "moldau.cli.main", "--help"], capture_output=True, check=True)
        times.append((time.perf_counter() - begin) * 1000)
    return {"help_ms": statistics.median(times)}
