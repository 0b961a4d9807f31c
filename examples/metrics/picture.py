"""Draws the minutes: result.png."""

import json

import matplotlib

from moldau.columnar import read_topic

matplotlib.use("Agg")
from matplotlib import pyplot


def values_of(topic: str) -> list[dict]:
    batches = read_topic("127.0.0.1:9092", topic)
    return [json.loads(value) for batch in batches for value in batch.column("value").to_pylist()]


rows = sorted(values_of("metrics-by-minute"), key=lambda row: row["at"])
minutes = [int(row["at"][14:16]) for row in rows]
alerts = {alert["is"]: int(alert["at"][14:16]) for alert in values_of("metrics-alerts")}
figure, (latency, rate) = pyplot.subplots(2, 1, figsize=(8, 4), sharex=True)
latency.plot(minutes, [row["p95_ms"] for row in rows], color="#e08e45", label="95th percentile")
latency.plot(minutes, [row["p50_ms"] for row in rows], color="#0e7490", label="median")
latency.axhline(150, color="grey", linewidth=0.8, linestyle="--")
latency.axvspan(alerts["raised"], alerts["over"], color="#e08e45", alpha=0.15, label="alert")
latency.set(ylabel="latency (ms)", ylim=(0, None))
latency.legend(frameon=False, loc="upper right")
rate.plot(minutes, [row["errors_per_s"] for row in rows], color="#0e7490")
rate.set(ylabel="errors per second", xlabel="minute after 09:00 UTC", ylim=(0, None))
figure.align_ylabels()
figure.tight_layout()
figure.savefig("result.png")
busiest = max(rows, key=lambda row: row["errors_per_s"])
errors, requests = busiest["errors_per_s"], busiest["requests_per_s"]
print(f"most errors at {busiest['at'][11:16]}: {errors} of {requests} requests per second")
