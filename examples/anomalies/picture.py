"""Draws the readings with the spikes and silences that were found: result.png."""

import json
from datetime import datetime

import matplotlib

from moldau.columnar import read_topic

matplotlib.use("Agg")
from matplotlib import dates, pyplot


def values_of(topic: str) -> list[dict]:
    batches = read_topic("127.0.0.1:9092", topic, isolation="read_committed")
    return [json.loads(value) for batch in batches for value in batch.column("value").to_pylist()]


def time_of(text: str) -> datetime:
    return datetime.fromisoformat(text)


readings = values_of("readings")
spikes = sorted(values_of("spikes"), key=lambda spike: spike["at"])
silences = sorted(values_of("silences"), key=lambda silence: silence["last_seen"])
devices = sorted({reading["device"] for reading in readings})
figure, rows = pyplot.subplots(len(devices), 1, figsize=(8, 5), sharex=True)
for device, axes in zip(devices, rows, strict=True):
    own = [reading for reading in readings if reading["device"] == device]
    times = [time_of(reading["at"]) for reading in own]
    axes.plot(times, [reading["degrees"] for reading in own], color="#0e7490", linewidth=0.7)
    found = [spike for spike in spikes if spike["device"] == device]
    axes.scatter([time_of(one["at"]) for one in found], [one["degrees"] for one in found], color="#e08e45", zorder=3)
    for silence in silences:
        if silence["silent"] == device:
            begin = time_of(silence["last_seen"])
            axes.axvspan(begin, min(time for time in times if time > begin), color="#e08e45", alpha=0.3)
    axes.set_ylabel(device, fontsize="small")
rows[-1].xaxis.set_major_formatter(dates.DateFormatter("%H:%M"))
rows[-1].set_xlabel("°C of each room; dots: spikes; bands: silences (UTC)")
figure.tight_layout()
figure.savefig("result.png")
print(f"{len(spikes)} spikes and {len(silences)} silences in {len(readings)} readings")
worst = max(spikes, key=lambda spike: abs(spike["z"]))
print(f"the largest: {worst['device']} at {worst['at'][11:19]}, {worst['degrees']} °C, z = {worst['z']}")
for silence in silences:
    print(f"{silence['silent']} was last seen at {silence['last_seen'][11:19]}")
