"""Which searches lead to a click: what people look for and do not find."""

from collections import Counter

from reading import new_events

counts = {"searches": Counter(), "clicks": Counter()}
for topic, event in new_events("search-quality", "searches", "clicks"):
    counts[topic][event["word"]] += 1
for word, searches in sorted(counts["searches"].items(), key=lambda row: row[0]):
    print(f"{word:7} {searches:3} searches, {counts['clicks'][word] / searches:4.0%} with a click")
