"""Draws who wrote and read which topic, and the kills: result.png."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

GREY, BLUE, ORANGE, RED = "#64748b", "#0e7490", "#f59e0b", "#b91c1c"
run = json.loads(Path("out/run.json").read_text())
figure, (written, invoiced) = pyplot.subplots(2, 1, figsize=(8, 4.4), sharex=True)


def draw(axes, name, label, color, style="-"):
    points = run[name] if name == "copies" else [(at, count) for count, at in enumerate(run[name], 1)]
    axes.plot([at for at, _ in points], [count for _, count in points], style, color=color, label=label, linewidth=2)


draw(written, "orders", "orders", GREY)
draw(written, "copies", "copies of orders", ORANGE, "--")
draw(written, "new orders", "orders-by-customer", BLUE)
draw(invoiced, "invoices", "of orders", GREY)
draw(invoiced, "new invoices", "of orders-by-customer", BLUE)
kills = [at for at, event in run["events"] if event.startswith("kill")]
for axes, title in ((written, "records written"), (invoiced, "invoices written")):
    for at in kills:
        axes.axvline(at, color=RED, linewidth=0.8, label="kill -9" if at == kills[0] else None)
    axes.set(ylabel=title, xlim=(0, None), ylim=(0, None))
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), alignment="left")
invoiced.set(xlabel="seconds")
figure.tight_layout()
figure.savefig("result.png")
orders = len(run["orders"]) + len(run["new orders"])
invoices = len(run["invoices"]) + len(run["new invoices"])
print(f"{orders} orders written to two topics, {invoices} invoices")
