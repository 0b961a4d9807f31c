"""Draws the minutes of each service and its alerts: result.png."""

import json
from collections import Counter
from datetime import datetime

import matplotlib

from moldau.columnar import read_topic

matplotlib.use("Agg")
from matplotlib import dates, pyplot


def values_of(topic: str) -> list[dict]:
    batches = read_topic("127.0.0.1:9092", topic, isolation="read_committed")
    rows = [json.loads(value) for batch in batches for value in batch.column("value").to_pylist()]
    return sorted(rows, key=lambda row: (row["minute"], row["name"]))


def times_of(rows: list[dict]) -> list[datetime]:
    return [datetime.fromisoformat(row["minute"]) for row in rows]


minutes, alerts = values_of("minutes"), values_of("service-alerts")
figure, (latency, errors) = pyplot.subplots(2, 1, figsize=(8, 5), sharex=True)
for service in sorted({row["name"] for row in minutes}):
    own = [row for row in minutes if row["name"] == service]
    (line,) = latency.plot(times_of(own), [row["p95_ms"] for row in own], label=service)
    errors.plot(times_of(own), [100 * row["errors"] for row in own], color=line.get_color())
slow = [row for row in alerts if row["problem"] == "slow"]
failing = [row for row in alerts if row["problem"] == "failing"]
latency.scatter(times_of(slow), [row["p95_ms"] for row in slow], color="#b91c1c", zorder=3)
errors.scatter(times_of(failing), [100 * row["errors"] for row in failing], color="#b91c1c", zorder=3)
latency.set(ylabel="95th percentile (ms)", yscale="log")
latency.legend(frameon=False, ncols=4, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, 1.2))
errors.set(ylabel="errors (%)", xlabel="minute (UTC); dots: alerts")
errors.xaxis.set_major_formatter(dates.DateFormatter("%H:%M"))
figure.align_ylabels()
figure.tight_layout()
figure.savefig("result.png")
print(f"{len(minutes)} minutes of services, {len(alerts)} alerts")
for (name, problem), count in sorted(Counter((row["name"], row["problem"]) for row in alerts).items()):
    print(f"{name} was {problem} in {count} minutes")
