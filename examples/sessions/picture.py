"""Counts the visits of each hour, and draws them: result.png."""

from collections import Counter

import matplotlib
import pyarrow.parquet as pq

matplotlib.use("Agg")
from matplotlib import pyplot

sessions = pq.read_table("out/sessions").to_pylist()
visits = Counter(session["begins"].hour for session in sessions)
with_cart = Counter(session["begins"].hour for session in sessions if session["reached_cart"])
figure, axes = pyplot.subplots(figsize=(8, 3))
axes.bar(range(24), [visits[hour] for hour in range(24)], color="#9fc5d8", label="all visits")
axes.bar(range(24), [with_cart[hour] for hour in range(24)], color="#0e7490", label="with the cart")
axes.set(xlabel="hour of the day (UTC)", ylabel="visits")
axes.legend(frameon=False)
figure.tight_layout()
figure.savefig("result.png")
clicks = sum(session["clicks"] for session in sessions)
print(f"{len(sessions)} visits, {clicks} clicks, {sum(with_cart.values())} visits reached the cart")
