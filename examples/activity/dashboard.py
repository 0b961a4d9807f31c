"""Acts of each kind and the pages with most views, since the dashboard was last asked."""

from collections import Counter

from reading import new_events

acts, views = Counter(), Counter()
for topic, event in new_events("dashboard", "page-views", "searches", "clicks"):
    acts[topic] += 1
    if topic == "page-views":
        views[event["page"]] += 1
print(", ".join(f"{acts[topic]} {topic}" for topic in ("page-views", "searches", "clicks")))
for page, count in sorted(views.items(), key=lambda row: (-row[1], row[0]))[:4]:
    print(f"{count:5} {page}")
