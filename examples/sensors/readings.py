"""Three hours of readings of five sensors as JSON lines, one every ten seconds. `sensor-3` is offline in the second
hour: `python readings.py late` prints the readings that it sends when it is online again."""

import json
import math
import sys
from datetime import datetime, timedelta
from random import Random

draw = Random(11)
begin = datetime(2026, 1, 5, 6)
arrivals = []
for sensor in range(5):
    for number in range(3 * 360):
        at = begin + timedelta(seconds=10 * number)
        degrees = 20 + sensor + 3 * math.sin(number / 170) + draw.gauss(0, 0.4)
        is_late = sensor == 3 and 360 <= number < 720
        if is_late == ("late" in sys.argv):
            arrivals.append((at + timedelta(seconds=draw.randint(0, 50)), f"sensor-{sensor}", at, round(degrees, 2)))
for _, sensor, at, degrees in sorted(arrivals):
    print(json.dumps({"sensor": sensor, "at": at.isoformat() + "Z", "degrees": degrees}))
if "late" not in sys.argv:  # the next record closes the third hour in the pipeline
    print(json.dumps({"sensor": "sensor-0", "at": (begin + timedelta(hours=4)).isoformat() + "Z", "degrees": 20.0}))
