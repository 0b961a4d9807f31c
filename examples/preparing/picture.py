"""Draws what became of the orders: result.png."""

import json

import matplotlib

from moldau.columnar import read_topic

matplotlib.use("Agg")
from matplotlib import pyplot


def values_of(topic: str) -> list[bytes]:
    batches = read_topic("127.0.0.1:9092", topic, isolation="read_committed")
    return [value for batch in batches for value in batch.column("value").to_pylist()]


counts = {
    "lines of the shops": len(values_of("raw-orders")),
    "no JSON: dead letters": len(values_of("run-preparing.dead-letters")),
    "no amount: rejected": len(values_of("rejected-orders")),
    "orders by customer": len(values_of("orders")),
}
once = [json.loads(value) for value in values_of("orders-once")]
counts["each order once"] = len(once)
figure, axes = pyplot.subplots(figsize=(8, 3))
bars = axes.barh(list(counts), list(counts.values()), color=["#0e7490", "#e08e45", "#e08e45", "#0e7490", "#0e7490"])
axes.bar_label(bars, padding=3)
axes.invert_yaxis()
axes.spines[["top", "right"]].set_visible(False)
figure.tight_layout()
figure.savefig("result.png")
for name, count in counts.items():
    print(f"{count:5} {name}")
for country in sorted({order["country"] for order in once}):
    amounts = [float(order["amount"]) for order in once if order["country"] == country]
    print(f"{country}: {len(amounts)} orders, {sum(amounts):.2f}")
