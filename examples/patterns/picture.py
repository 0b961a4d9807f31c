"""Draws what the three programs saw: result.png."""

import json

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot


def result(name: str) -> object:
    with open(f"out/{name}.json", encoding="utf-8") as file:
        return json.load(file)


figure, (order, groups, workers) = pyplot.subplots(1, 3, figsize=(12, 3.6))
for topic, marker, color in (("one-partition", "o", "#0e7490"), ("three-partitions", "x", "#b45309")):
    order.scatter(range(60), result(topic), s=16, marker=marker, color=color, label=topic)
order.set(title="order", xlabel="read as", ylabel="written as")
order.legend()
fan_out = result("fan-out")
groups.bar_label(groups.bar(fan_out.keys(), fan_out.values(), color="#0e7490"))
groups.set(title="fan-out: records of each group", ylim=(0, 350))
done = result("workers")
for name, color in (("first", "#0e7490"), ("second", "#b45309"), ("third", "#b91c1c")):
    mine = [place for place, (worker, _) in enumerate(done) if worker == name]
    workers.plot(mine, range(1, len(mine) + 1), color=color, label=f"{name}: {len(mine)}")
workers.set(title="competing workers: jobs of each", xlabel="jobs done by all")
workers.legend()
figure.tight_layout()
figure.savefig("result.png", dpi=110)
