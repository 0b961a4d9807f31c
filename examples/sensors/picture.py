"""Draws the five-minute windows of each sensor: result.png."""

import sqlite3

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

rows = sqlite3.connect("out/sensors.db").execute(
    "select sensor, begins, degrees, readings from minutes order by begins"
)
lines: dict[str, list[tuple[str, float]]] = {}
readings = 0
for sensor, begins, degrees, count in rows:
    lines.setdefault(sensor, []).append((begins[11:16], degrees))
    readings += count
figure, axes = pyplot.subplots(figsize=(8, 3))
times = sorted({time for line in lines.values() for time, _ in line})
for sensor, line in sorted(lines.items()):
    found = dict(line)
    axes.plot(times, [found.get(time) for time in times], marker=".", label=sensor)
axes.set(ylabel="°C", xlabel="five minutes from (UTC)")
axes.set_xticks(times[::6])
axes.legend(frameon=False, ncols=5, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, 1.2))
figure.tight_layout()
figure.savefig("result.png")
print(f"{sum(map(len, lines.values()))} rows of {readings} readings")
print(f"sensor-3 has {len(lines['sensor-3'])} rows, sensor-1 has {len(lines['sensor-1'])}")
