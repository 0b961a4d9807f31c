"""Draws readings, the disk of the device, outages and kills: result.png."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

BLUE, ORANGE, RED = "#0e7490", "#f59e0b", "#b91c1c"
run = json.loads(Path("out/run.json").read_text())
times, written, forwarded, kept = zip(*run["samples"], strict=True)
figure, (readings, disk) = pyplot.subplots(2, 1, figsize=(8, 4.4), sharex=True, height_ratios=[2, 1])
readings.plot(times, written, color=BLUE, linewidth=2, label="written on the device")
readings.plot(times, forwarded, color=ORANGE, linewidth=2, label="forwarded up to")
disk.plot(times, [size / (1 << 20) for size in kept], color=BLUE, label="kept on the device")
for axes in (readings, disk):
    for place, (begin, end) in enumerate(run["outages"]):
        axes.axvspan(begin, end, color="#e2e8f0", label=None if place else "line dead")
    for place, (at, _) in enumerate(run["kills"]):
        axes.axvline(at, color=RED, linewidth=0.8, label=None if place else "kill -9")
readings.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
disk.legend(handles=disk.lines[:1], frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
readings.set(ylabel="readings", xlim=(0, None), ylim=(0, None))
disk.set(ylabel="MiB", xlabel="seconds", ylim=(0, None))
share = run["missing"] / run["readings"]
readings.set_title(f"{run['missing']:,} of {run['readings']:,} readings missing ({share:.0%})", loc="left", fontsize=10)
figure.tight_layout()
figure.savefig("result.png")
print(f"{run['readings']} readings: each is at the centre once, or said to be missing")
