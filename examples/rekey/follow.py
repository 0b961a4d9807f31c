"""Moves the group `billing` to the new topic. Its consumers of the old topic must have stopped.

One request commits all: the group begins at the start of each partition of the new topic, with its committed offsets of
the old topic as metadata; these get "moved" as metadata. This program is a member of the group that has all partitions
of the old topic. If another one joins, the request is rejected.
"""

import json
import time

from confluent_kafka import KafkaException
from shop import BILLING, NEW, OLD, SECONDS, TopicPartition, partitions_of, reader

consumer = reader(BILLING)
old = partitions_of(consumer, OLD)
held = []


def assigned(consumer, partitions):
    held[:] = partitions
    consumer.assign([])  # it reads nothing


consumer.subscribe([OLD], on_assign=assigned)
end_s = time.monotonic() + SECONDS
while len(held) < len(old):
    if time.monotonic() > end_s:
        raise SystemExit("the group has other members: stop them")
    message = consumer.poll(0.1)
    if message is not None and message.error():
        raise KafkaException(message.error())
committed = consumer.committed(old, SECONDS)
if any(p.metadata for p in committed):
    print("the group has moved already")
else:
    place = json.dumps([max(0, p.offset) for p in committed])
    begins = [(p, consumer.get_watermark_offsets(p, SECONDS)[0]) for p in partitions_of(consumer, NEW)]
    offsets = [TopicPartition(NEW, p.partition, begin, place) for p, begin in begins]
    marks = [TopicPartition(OLD, p.partition, max(0, p.offset), "moved") for p in committed]
    consumer.commit(offsets=offsets + marks, asynchronous=False)
    print(f"the group begins in {NEW}; it handled {place} in {OLD}")
consumer.close()
