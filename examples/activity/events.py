"""What visitors of a shop do: `python events.py morning`, `python events.py evening`. Each line is TOPIC, a tab, and
the event as JSON. The topics are page-views, searches, and clicks on the result of a search."""

import json
import sys
from datetime import datetime, timedelta
from random import Random

PAGES = ["/", "/bread", "/butter", "/cheese", "/honey", "/milk", "/tea", "/offers"]
WORDS = ["bread", "butter", "honey", "tea", "jam"]  # the shop has no jam
HOURS = {"morning": (6, 13), "evening": (13, 22)}
part = sys.argv[1]
draw = Random(part)
begin, end = HOURS[part]
lines = []
for _ in range(900):
    user = f"user-{draw.randint(1, 250)}"
    hour = draw.triangular(begin, end, begin + 5)
    at = datetime(2026, 1, 5) + timedelta(hours=hour)
    for _ in range(draw.randint(1, 5)):
        page = draw.choices(PAGES, weights=[30, 9, 7, 6, 5, 8, 4, 12 if part == "evening" else 2])[0]
        lines.append((at, "page-views", {"user": user, "page": page}))
        at += timedelta(seconds=draw.randint(5, 120))
    if draw.random() < 0.3:
        word = draw.choice(WORDS)
        lines.append((at, "searches", {"user": user, "word": word}))
        if word != "jam" and draw.random() < 0.7:
            lines.append((at + timedelta(seconds=4), "clicks", {"user": user, "page": f"/{word}", "word": word}))
for at, topic, event in sorted(lines, key=lambda line: line[0]):
    print(topic, json.dumps({"at": at.isoformat(timespec="seconds") + "Z", **event}), sep="\t")
