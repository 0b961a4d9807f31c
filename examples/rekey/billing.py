"""Writes an invoice for each order, as a member of the group `billing`: `python billing.py MEMBER TOPIC`."""

import json
import signal
import sys

from confluent_kafka import OFFSET_BEGINNING, KafkaException
from shop import BILLING, INVOICES, NEW, SECONDS, TopicPartition, as_new, commit, reader, source_of, transactional

member, topic = sys.argv[1:]
is_stopped = False
moved = {}  # by partition of the new topic: the group's committed offsets in the old topic, as JSON
records = []
group = None


def assigned(consumer, partitions):
    global group
    # Not asked for again: once the group has removed this member, an answer would name no generation, and offsets of a
    # transaction that name none are accepted.
    group = consumer.consumer_group_metadata()
    committed = consumer.committed(partitions, SECONDS)
    if topic == NEW:
        moved.clear()
        moved.update({p.partition: p.metadata for p in committed})
        if any(p.offset < 0 for p in committed):
            sys.exit("the group has no place in the new topic: python follow.py")
    elif any(p.metadata for p in committed):
        sys.exit("the group has moved to the new topic")
    print("ready", flush=True)
    begins = [p.offset if p.offset >= 0 else OFFSET_BEGINNING for p in committed]
    consumer.assign([TopicPartition(topic, p.partition, begin) for p, begin in zip(committed, begins, strict=True)])


def revoked(consumer, partitions):
    records.clear()  # another member handles them


def is_handled(message):
    """Whether this is the copy of a record that the group handled in the old topic."""
    source = source_of(message) if topic == NEW else None
    return source is not None and source[1] < json.loads(moved[message.partition()])[source[0]]


def stop(*_):
    global is_stopped
    is_stopped = True


signal.signal(signal.SIGTERM, stop)
producer = transactional(f"billing-{member}")
# a name of its own: started again after a death, it gets its partitions back at once
consumer = reader(BILLING, **{"group.instance.id": member})
consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked)
while not is_stopped:
    message = consumer.poll(0.1)
    if message is not None:
        if message.error():
            raise KafkaException(message.error())
        records.append(message)
    if not records or (message is not None and len(records) < 50):
        continue
    producer.begin_transaction()
    for message in records:
        if not is_handled(message):
            customer, order = as_new(message.value()) if topic != NEW else (message.key(), message.value())
            producer.produce(INVOICES, order, customer, headers=[("from", topic)])
    position = {message.partition(): message.offset() + 1 for message in records}
    offsets = [TopicPartition(topic, p, offset, moved.get(p, "")) for p, offset in position.items()]
    commit(producer, offsets, group)
    records.clear()
consumer.close()
