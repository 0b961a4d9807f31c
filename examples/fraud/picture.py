"""Reads the alerts as Arrow, and draws them: result.png."""

import json

import matplotlib

from moldau.columnar import read_topic

matplotlib.use("Agg")
from matplotlib import pyplot

alerts = [
    json.loads(value)
    for batch in read_topic("127.0.0.1:9092", "fraud-alerts", isolation="read_committed")
    for value in batch.column("value").to_pylist()
]
figure, axes = pyplot.subplots(figsize=(8, 3))
for country in sorted({alert["country"] for alert in alerts}):
    found = [alert for alert in alerts if alert["country"] == country]
    hours = [int(alert["at"][11:13]) + int(alert["at"][14:16]) / 60 for alert in found]
    axes.scatter(hours, [alert["amount"] for alert in found], s=[90 * alert["score"] for alert in found], label=country)
axes.set(xlabel="hour of the day (UTC)", ylabel="amount; larger dots: higher score")
axes.legend(frameon=False)
figure.tight_layout()
figure.savefig("result.png")
worst = max(alerts, key=lambda alert: alert["score"])
print(f"{len(alerts)} alerts; the worst: {worst['user']} paid {worst['amount']} from {worst['country']}")
