"""Reads the counters of all hosts, and writes a record for each minute, and one for each change of the alert.

A counter becomes a rate by its difference to the host's record before. Two minutes in a row with a 95th percentile
above the limit raise the alert, two below it end it."""

import json
from collections import defaultdict
from datetime import UTC, datetime
from statistics import quantiles

from confluent_kafka import Producer

from moldau.columnar import read_topic

SERVERS = "127.0.0.1:9092"
PARTITIONS = 3
LATE_S = 30
LIMIT_MS = 150
IN_A_ROW = 2
before: dict[bytes, dict] = {}
open_minutes: dict[int, dict] = defaultdict(lambda: {"requests": 0, "errors": 0, "latencies": []})
newest: dict[int, float] = {}
"""Seconds, by partition: partitions are read side by side, and one may be far ahead."""
producer = Producer({"bootstrap.servers": SERVERS, "enable.idempotence": True})
is_alert, streak, written = False, 0, 0


def increase(host: bytes, row: dict, name: str) -> int:
    """Since the host's record before. A counter that went back began at zero again."""
    last = before.get(host, row)[name]
    return row[name] - last if row[name] >= last else row[name]


def write(minute: int, sums: dict) -> None:
    """The row of a complete minute, and the alert if it changes."""
    global is_alert, streak, written
    cuts = quantiles(sums["latencies"], n=100)
    at = datetime.fromtimestamp(minute * 60, UTC).strftime("%Y-%m-%dT%H:%MZ")
    rates = {"requests_per_s": round(sums["requests"] / 60, 1), "errors_per_s": round(sums["errors"] / 60, 2)}
    row = {"at": at, **rates, "p50_ms": round(cuts[49], 1), "p95_ms": round(cuts[94], 1)}
    producer.produce("metrics-by-minute", json.dumps(row), at)
    written += 1
    streak = streak + 1 if (row["p95_ms"] > LIMIT_MS) != is_alert else 0
    if streak == IN_A_ROW:
        is_alert, streak = not is_alert, 0
        alert = {"at": at, "p95_ms": row["p95_ms"], "is": "raised" if is_alert else "over"}
        producer.produce("metrics-alerts", json.dumps(alert), "p95_ms")
        print(f"{at} {alert['is']}: 95 of 100 requests took up to {alert['p95_ms']} ms")


for batch in read_topic(SERVERS, "host-metrics"):
    columns = (batch.column(name).to_pylist() for name in ("partition", "key", "value"))
    for partition, host, value in zip(*columns, strict=True):
        row = json.loads(value)
        seconds = datetime.fromisoformat(row["at"]).timestamp()
        sums = open_minutes[int(seconds // 60)]
        sums["requests"] += increase(host, row, "requests")
        sums["errors"] += increase(host, row, "errors")
        sums["latencies"].append(row["latency_ms"])
        before[host] = row
        newest[partition] = max(seconds, newest.get(partition, 0))
    if len(newest) == PARTITIONS:
        complete = (min(newest.values()) - LATE_S) // 60
        for minute in sorted(minute for minute in open_minutes if minute < complete):
            write(minute, open_minutes.pop(minute))
if producer.flush(30):
    raise SystemExit("not all records were written")
print(f"{written} minutes of {len(before)} hosts; {len(open_minutes)} not complete yet")
