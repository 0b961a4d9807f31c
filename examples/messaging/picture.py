"""Counts what became of the orders, and draws it: result.png."""

import json
from collections import Counter

import matplotlib

from moldau.columnar import read_topic

matplotlib.use("Agg")
from matplotlib import pyplot


def values_of(topic: str) -> list[dict]:
    batches = read_topic("127.0.0.1:9092", topic)
    return [json.loads(value) for batch in batches for value in batch.column("value").to_pylist()]


events = sorted(values_of("order-events"), key=lambda event: int(event["order"].removeprefix("order-")))
shipments = values_of("shipments")
kinds = Counter(event["type"] for event in events)
sales = [event for event in events if event["type"] == "OrderAccepted"]
assert sorted(one["order"] for one in shipments) == sorted(event["order"] for event in sales)
sold = sum(event["quantity"] for event in sales)
left: dict[str, int] = {}
for batch in read_topic("127.0.0.1:9092", "stock-levels"):
    for item, value in zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True):
        left[item.decode()] = json.loads(value)["left"]

figure, (by_item, by_time) = pyplot.subplots(1, 2, figsize=(9, 3), width_ratios=[2, 3])
items = sorted(left, reverse=True)
counts = Counter((event["item"], event["type"]) for event in events)
yes = [counts[item, "OrderAccepted"] for item in items]
by_item.barh(items, yes, color="#0e7490", label="accepted")
by_item.barh(items, [counts[item, "OrderRejected"] for item in items], left=yes, color="#e08e45", label="rejected")
by_item.set(xlabel="orders", xlim=(0, 115))
by_item.legend(frameon=False, loc="lower right")
by_time.plot([event["waited_ms"] for event in events], ".", color="#0e7490", markersize=4)
by_time.set(xlabel="order; the stock was killed once", ylabel="ms until the reply", yscale="log")
figure.tight_layout()
figure.savefig("result.png")
accepted, rejected, failed = (kinds[f"Order{kind}"] for kind in ("Accepted", "Rejected", "Failed"))
print(f"{len(events)} orders: {accepted} accepted, {rejected} rejected, {failed} failed")
print(f"{len(shipments)} shipments; {sold} pieces sold, {sum(left.values())} left")
