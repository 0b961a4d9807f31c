"""What the programs share: topics, records and offsets."""

import json
import signal

from confluent_kafka import Consumer, Producer, TopicPartition

BROKERS = {
    "bootstrap.servers": "127.0.0.1:9092",
    "metadata.recovery.strategy": "none",  # else a transaction may hang after a broker's death: librdkafka's 5511
    "reconnect.backoff.max.ms": 1_000,
    "log_level": 0,
}
OLD, NEW, INVOICES = "orders", "orders-by-customer", "invoices"
COPIER, BILLING = "orders-copier", "billing"
SECONDS = 20.0


def transactional(name):
    """A producer. An earlier one of this name cannot write any more; what it left open is aborted."""
    producer = Producer(
        BROKERS
        | {
            "transactional.id": name,
            "transaction.timeout.ms": 20_000,
            "partitioner": "murmur2_random",  # as Java's: all writers of a topic need the same
        }
    )
    producer.init_transactions(SECONDS)
    return producer


def commit(producer, offsets, group):
    """Ends the transaction with these offsets of the group. If it hangs (librdkafka's issue 5456), the program ends."""
    signal.alarm(int(SECONDS))
    producer.send_offsets_to_transaction(offsets, group, SECONDS)
    producer.commit_transaction(SECONDS)
    signal.alarm(0)


def reader(group, **settings):
    return Consumer(
        BROKERS
        | {
            "group.id": group,
            "isolation.level": "read_committed",  # committed offsets too: of ended transactions only
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "session.timeout.ms": 6_000,
        }
        | settings
    )


def partitions_of(consumer, topic):
    found = consumer.list_topics(topic, SECONDS).topics[topic].partitions
    return [TopicPartition(topic, partition) for partition in sorted(found)]


def as_new(value):
    """A record of the old topic as one of the new topic: another key, and whole cents for a text of euros."""
    order = json.loads(value)
    euros, _, cents = order.pop("euros").partition(".")
    return order["customer"], json.dumps(order | {"cents": int(euros) * 100 + int(cents)})


def source_of(message):
    """Partition and offset in the old topic of a copy; None if a producer wrote this record."""
    headers = dict(message.headers() or [])
    return (int(headers["source-partition"]), int(headers["source-offset"])) if headers else None
