"""Draws the balances and the kills: result.png."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

run = json.loads(Path("out/run.json").read_text())
times = [at for at, _ in run["samples"]]
accounts = sorted(run["samples"][-1][1])
figure, axes = pyplot.subplots(figsize=(8, 3.6))
colors = pyplot.get_cmap("GnBu")
for number, account in enumerate(accounts):
    balances = [balances.get(account, 0) / 100 for _, balances in run["samples"]]
    axes.plot(times, balances, color=colors(0.3 + 0.7 * number / len(accounts)), label=account)
sums = [sum(balances.values()) / 100 for _, balances in run["samples"]]
axes.plot(times, sums, color="black", linewidth=2, label="sum of all")
styles = {"writer": "-", "broker": "--", "reader": ":"}
for name, style in styles.items():
    for place, at in enumerate([at for at, killed in run["kills"] if killed == name]):
        axes.axvline(at, color="#b91c1c", linestyle=style, label=None if place else f"kill -9: {name}")
axes.set(xlabel="seconds", ylabel="balance", xlim=(0, None))
axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
figure.tight_layout()
figure.savefig("result.png")
print(f"{len(accounts)} accounts; the sum was from {min(sums):.2f} to {max(sums):.2f}")
