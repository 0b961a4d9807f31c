"""Draws the whole day from the topics, whatever the groups have read: result.png."""

import json
from collections import Counter

import matplotlib

from moldau.columnar import read_topic

matplotlib.use("Agg")
from matplotlib import pyplot

KINDS = {"page-views": "#9fc5d8", "searches": "#e08e45", "clicks": "#0e7490"}
acts, views = {}, Counter()
for topic in KINDS:
    batches = read_topic("127.0.0.1:9092", topic)
    events = [json.loads(value) for batch in batches for value in batch.column("value").to_pylist()]
    acts[topic] = Counter(int(event["at"][11:13]) for event in events)
    if topic == "page-views":
        views.update(event["page"] for event in events)
figure, (by_hour, by_page) = pyplot.subplots(1, 2, figsize=(9, 3), width_ratios=[3, 2])
hours = range(6, 22)
bottom = [0] * len(hours)
for topic, color in KINDS.items():
    heights = [acts[topic][hour] for hour in hours]
    by_hour.bar(hours, heights, bottom=bottom, color=color, label=topic)
    bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
by_hour.set(xlabel="hour of the day (UTC)", ylabel="acts", ylim=(0, 950))
by_hour.legend(frameon=False, loc="upper center", ncols=3)
top = sorted(views.items(), key=lambda row: row[1])
by_page.barh([page for page, _ in top], [count for _, count in top], color="#9fc5d8")
by_page.set(xlabel="page views")
figure.tight_layout()
figure.savefig("result.png")
print(f"{sum(sum(counts.values()) for counts in acts.values())} acts, {len(views)} pages")
