"""Draws results.json, and prints it as a table: result.png."""

import json

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

with open("results.json", encoding="utf-8") as file:
    parts = json.load(file)
outcomes = [one for name in ("producers", "consumers") if name in parts for one in parts[name]["outcomes"]]
print(f"{'program':<20}{'kills':>6}{'records':>9}{'lost':>7}{'repeated':>10}")
for one in outcomes:
    print(f"{one['program']:<20}{one['kills']:>6}{one['promised']:>9}{one['lost']:>7}{one['repeated']:>10}")

figure, panels = pyplot.subplots(1, 2, figsize=(10, 4.6), sharey=True)
names = [f"{one['program']}, {one['kills']} kills" for one in outcomes]
for axes, kind, color in zip(panels, ("lost", "repeated"), ("#b91c1c", "#0e7490"), strict=True):
    counts = [one[kind] for one in outcomes]
    bars = axes.barh(names, counts, color=color)
    axes.bar_label(bars, labels=[f"{count:,}" for count in counts], padding=4)
    axes.set_xscale("symlog")
    axes.set_xlim(0, 10 * max(10, *counts))
    axes.set_title(f"records {kind}")
    axes.spines[["top", "right"]].set_visible(False)
panels[0].invert_yaxis()
figure.tight_layout()
figure.savefig("result.png", dpi=110)
