"""Log-ins and payments of a day as JSON lines: `python events.py logins`, `python events.py payments`. Now and then a
user logs in from another country, and pays a lot soon after."""

import json
import sys
from datetime import datetime, timedelta
from random import Random

draw = Random(13)
begin = datetime(2026, 1, 5, 8)
events = []
for user in range(300):
    home = draw.choice(["CZ", "AT", "DE"])
    for _ in range(draw.randint(2, 5)):
        at = begin + timedelta(minutes=draw.randint(0, 600))
        is_stranger = draw.random() < 0.02
        country = draw.choice(["BR", "VN", "NG"]) if is_stranger else home
        events.append((at, "logins", {"user": f"user-{user}", "country": country, "home": home}))
        for _ in range(draw.randint(0, 3)):
            at += timedelta(seconds=draw.randint(20, 400))
            amount = round(draw.uniform(300, 2_000) if is_stranger else draw.expovariate(1 / 60), 2)
            events.append((at, "payments", {"user": f"user-{user}", "amount": amount}))
for kind in ("logins", "payments"):
    nobody = {"user": "nobody", "amount": 0, "country": "CZ", "home": "CZ"}
    events += [(begin + timedelta(hours=12), kind, nobody)]
for at, kind, event in sorted(events, key=lambda event: event[0]):
    if kind == sys.argv[1]:
        print(json.dumps({"at": at.isoformat() + "Z", **event}))
