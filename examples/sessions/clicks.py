"""A day of clicks as JSON lines: each user visits a few times, and opens a few pages each time."""

import json
from datetime import datetime, timedelta
from random import Random

draw = Random(7)
midnight = datetime(2026, 1, 5)
clicks = []
for user in range(200):
    for _ in range(draw.randint(1, 4)):
        at = midnight + timedelta(minutes=draw.randint(0, 23 * 60))
        for _ in range(draw.randint(1, 12)):
            clicks.append((at, f"user-{user}", draw.choice(["/", "/search", "/item", "/item", "/cart"])))
            at += timedelta(seconds=draw.randint(5, 600))
# the first click of the next day closes the last windows of the day before
clicks.append((midnight + timedelta(days=1, hours=2), "user-0", "/"))
for at, user, page in sorted(clicks):
    print(json.dumps({"at": at.isoformat() + "Z", "user": user, "page": page}))
