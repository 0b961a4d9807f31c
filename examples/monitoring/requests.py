"""An hour of requests to four services as JSON lines, in the order of time. The checkout is slow for six minutes, and
the search fails often for four."""

import json
from datetime import datetime, timedelta
from random import Random

draw = Random(21)
begin = datetime(2026, 1, 5, 9)
USUAL_MS = {"cart": 40, "checkout": 120, "search": 60, "users": 25}
requests = []
for service, usual in USUAL_MS.items():
    for second in range(3600):
        minute = second // 60
        for _ in range(draw.randint(0, 2)):
            ms = usual * draw.lognormvariate(0, 0.5)
            if service == "checkout" and 20 <= minute < 26:
                ms *= 5
            is_bad = draw.random() < (0.2 if service == "search" and 41 <= minute < 45 else 0.005)
            at = begin + timedelta(seconds=second, milliseconds=draw.randrange(1000))
            requests.append((at, service, 503 if is_bad else 200, round(ms, 1)))
for at, service, status, ms in sorted(requests):
    stamp = at.isoformat(timespec="milliseconds") + "Z"
    print(json.dumps({"service": service, "status": status, "ms": ms, "at": stamp}))
# the next request: it closes the last minute
print(json.dumps({"service": "users", "status": 200, "ms": 25.0, "at": "2026-01-05T10:01:00.000Z"}))
