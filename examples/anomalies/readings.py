"""Two hours of readings of four cold rooms as JSON lines, one every ten seconds. `python readings.py injected` prints
what a detector must find: single readings that are far off, and rooms that fall silent for some minutes."""

import json
import math
import sys
from datetime import datetime, timedelta
from random import Random

draw = Random(54)
begin = datetime(2026, 1, 5, 6)
readings, injected = [], []
for room in range(4):
    device = f"room-{room}"
    # a quarter of an hour apart, so that no spike is in the trailing window of the next one
    minutes = draw.sample(range(20, 110, 15), 4)
    spikes = {minute * 6 + draw.randrange(6): draw.choice([-1, 1]) * draw.uniform(4, 8) for minute in minutes[:3]}
    silent_from = minutes[3] * 6
    silence = range(silent_from, silent_from + draw.randint(24, 60)) if room % 2 else range(0)
    for number in range(2 * 360):
        if number in silence:
            continue
        at = begin + timedelta(seconds=10 * number)
        degrees = 4 + room / 2 + math.sin(number / 300) + draw.gauss(0, 0.3) + spikes.get(number, 0)
        readings.append({"device": device, "degrees": round(degrees, 2), "at": at.isoformat() + "Z"})
        if number in spikes:
            injected.append({"what": "spike", **readings[-1]})
    if silence:
        last = begin + timedelta(seconds=10 * (silence.start - 1))
        injected.append({"what": "silence", "device": device, "at": last.isoformat() + "Z"})
chosen = injected if "injected" in sys.argv else readings
for line in sorted(chosen, key=lambda line: line["at"]):
    print(json.dumps(line))
