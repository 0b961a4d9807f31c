"""The write side: decides each command of standard input, and appends events. Its state is the sum of all events, which
it reads at the start. Only one such process may run: it must know every event before it decides."""

import json
import sys
from collections import Counter

from confluent_kafka import Producer

from moldau.columnar import read_topic

SERVERS = "127.0.0.1:9092"
SEATS = 80
taken, seats_of = Counter(), Counter()


def apply(event: dict) -> None:
    change = 1 if event["event"] == "SeatReserved" else -1
    taken[event["show"]] += change
    seats_of[event["show"], event["customer"]] += change


for batch in read_topic(SERVERS, "seat-events"):
    for value in batch.column("value").to_pylist():
        apply(json.loads(value))
producer = Producer({"bootstrap.servers": SERVERS, "enable.idempotence": True})
results = Counter()
for line in sys.stdin:
    command = json.loads(line)
    show, customer = command["show"], command["customer"]
    is_reserving = command["command"] == "reserve"
    if taken[show] >= SEATS if is_reserving else not seats_of[show, customer]:
        results["rejected"] += 1
        continue
    event = {"event": "SeatReserved" if is_reserving else "SeatReleased", "show": show, "customer": customer}
    apply(event)
    producer.produce("seat-events", json.dumps(event), show)
    producer.poll(0)
    results["accepted"] += 1
if producer.flush(30):
    raise SystemExit("not all events were written")
print(f"{results['accepted']} commands accepted, {results['rejected']} rejected")
