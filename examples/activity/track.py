"""Sends the lines of standard input into their topics. The key is the user: the acts of one user stay in order."""

import json
import sys

from confluent_kafka import Producer

producer = Producer({"bootstrap.servers": "127.0.0.1:9092", "enable.idempotence": True, "linger.ms": 20})
for line in sys.stdin:
    topic, _, event = line.rstrip().partition("\t")
    producer.produce(topic, event, json.loads(event)["user"])
    producer.poll(0)
if producer.flush(30):
    raise SystemExit("not all events were written")
