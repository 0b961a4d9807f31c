"""Draws the risk of each pump today, and when it failed: result.png."""

import json
from datetime import datetime
from pathlib import Path

import matplotlib

from moldau.columnar import read_topic

matplotlib.use("Agg")
from matplotlib import pyplot

ALARM = 0.9

risks = [
    json.loads(value)
    for batch in read_topic("127.0.0.1:9092", "pump-risks", isolation="read_committed")
    for value in batch.column("value").to_pylist()
]
failures = {one["pump"]: one["at"] for one in map(json.loads, Path("out/failures.jsonl").read_text().splitlines())}
today = sorted((one["pump"], datetime.fromisoformat(one["at"]), one["risk"]) for one in risks if "01-06" in one["at"])

figure, axes = pyplot.subplots(figsize=(8, 3))
alarms, warned = 0, []
for pump in sorted({pump for pump, _, _ in today}):
    line = [(at, risk) for name, at, risk in today if name == pump]
    first = next((at for at, risk in line if risk >= ALARM), None)
    colour = "tab:red" if pump in failures else "silver"
    axes.plot(*zip(*line, strict=True), color=colour, linewidth=1, zorder=2 if pump in failures else 1)
    alarms += first is not None
    if pump in failures:
        fails = datetime.fromisoformat(failures[pump])
        axes.plot(fails, 1, "kx", zorder=3)
        if first is not None:
            warned.append((fails - first).seconds // 60)
axes.axhline(ALARM, color="black", linewidth=0.5, linestyle=":")
axes.set(ylabel="risk", xlabel="hour of the day (UTC); a cross: the pump failed")
axes.xaxis.set_major_formatter(matplotlib.dates.DateFormatter("%H"))
figure.tight_layout()
figure.savefig("result.png")
print(f"{len(warned)} of {len(failures)} failures were told {min(warned)} to {max(warned)} minutes ahead")
print(f"{alarms - len(warned)} alarms of pumps that did not fail")
