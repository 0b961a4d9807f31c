"""Draws the read model that serves now: result.png."""

import sqlite3

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

rows = sqlite3.connect("out/theatre.db").execute("select show, taken, peak from shows order by taken, show").fetchall()
names = [show for show, _, _ in rows]
figure, axes = pyplot.subplots(figsize=(8, 3))
axes.barh(names, [peak for _, _, peak in rows], color="#9fc5d8", label="most seats ever taken (version 2)")
axes.barh(names, [taken for _, taken, _ in rows], color="#0e7490", height=0.5, label="seats taken now")
axes.set(xlabel="seats")
figure.legend(frameon=False, ncols=2, loc="upper center")
figure.tight_layout(rect=(0, 0, 1, 0.92))
figure.savefig("result.png")
for show, taken, peak in reversed(rows):
    print(f"{show:7} {taken:3} taken, at most {peak}")
