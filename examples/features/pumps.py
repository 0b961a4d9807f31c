"""Readings of twenty pumps, one a minute, as JSON lines: `python pumps.py yesterday`, or `today`. Some pumps wear out,
shake more and more, and fail: `python pumps.py failures yesterday` prints the times of failures. Others shake for a
moment, without a failure."""

import json
import sys
from datetime import datetime, timedelta
from random import Random

MINUTES = 8 * 60


def day(name: str) -> tuple[list[dict], list[dict]]:
    """Readings by time, and failures."""
    draw = Random(name)
    begin = datetime(2026, 1, 5 if name == "yesterday" else 6, 6)
    readings, failures = [], []
    for number in range(20):
        usual, fails_at = draw.uniform(1, 3), draw.randint(200, MINUTES) if number % 4 == 0 else None
        for minute in range(fails_at or MINUTES):
            worn = 0 if fails_at is None else max(0.0, 1 - (fails_at - minute) / 90)
            moment = draw.uniform(2, 5) if draw.random() < 0.01 else 0
            shaking = usual + 1.5 * worn**2 + draw.gauss(0, 0.15 + 0.5 * worn) + moment
            degrees = 55 + 4 * usual + 9 * worn + draw.gauss(0, 2)
            at = (begin + timedelta(minutes=minute)).isoformat() + "Z"
            reading = {"shaking": round(shaking, 3), "degrees": round(degrees, 1)}
            readings.append({"pump": f"pump-{number}", "at": at, **reading})
        if fails_at is not None:
            at = (begin + timedelta(minutes=fails_at)).isoformat() + "Z"
            failures.append({"pump": f"pump-{number}", "at": at})
    # the next record closes the last window in the pipeline
    readings.append({"pump": "none", "at": (begin + timedelta(hours=9)).isoformat() + "Z", "shaking": 0, "degrees": 0})
    return sorted(readings, key=lambda reading: reading["at"]), failures


readings, failures = day(sys.argv[-1])
for one in failures if "failures" in sys.argv else readings:
    print(json.dumps(one))
