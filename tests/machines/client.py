"""Requests of a test to a cluster from one of its machines: `python client.py kt1:9092 in-sync topic 3 3`.

Each word is a function here; it fails after PATIENCE_S.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import count

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic

PATIENCE_S = 60
REQUEST_S = 10
LOOK_S = 0.2


def brokers(servers: str, wanted: str) -> None:
    """Waits until the cluster has that many brokers; prints HOST:PORT of each, in the order of their ids."""
    found = _until(servers, lambda metadata: len(metadata.brokers) >= int(wanted))
    print(*(f"{each.host}:{each.port}" for _, each in sorted(found.brokers.items())))


def create(servers: str, topic: str, partitions: str, replicas: str) -> None:
    """Creates a topic; waits for as many brokers as it has replicas."""
    _until(servers, lambda metadata: len(metadata.brokers) >= int(replicas))
    admin = AdminClient(_quiet(servers))
    admin.create_topics([NewTopic(topic, int(partitions), int(replicas))])[topic].result(PATIENCE_S)


def in_sync(servers: str, topic: str, partitions: str, replicas: str) -> None:
    """Waits until each partition has that many in-sync replicas."""

    def is_whole(metadata: ClusterMetadata) -> bool:
        found = metadata.topics[topic].partitions
        return len(found) == int(partitions) and all(len(each.isrs) == int(replicas) for each in found.values())

    _until(servers, is_whole)


def out_of_sync(servers: str, topic: str, replicas: str) -> None:
    """Waits until some partition has fewer in-sync replicas."""

    def has_lost_one(metadata: ClusterMetadata) -> bool:
        return any(len(each.isrs) < int(replicas) for each in metadata.topics[topic].partitions.values())

    _until(servers, has_lost_one)


def produce(servers: str, topic: str, first: str, number: str) -> None:
    """Writes the numbers from `first` on, to each partition in turn, each acknowledged by all in-sync replicas."""
    failed: list[str] = []
    producer = Producer({**_quiet(servers), "acks": "all", "enable.idempotence": True})
    partitions = len(producer.list_topics(topic, REQUEST_S).topics[topic].partitions)
    for value in range(int(first), int(first) + int(number)):
        on_delivery = lambda error, _: failed.append(str(error)) if error else None  # noqa: E731
        producer.produce(topic, str(value).encode(), partition=value % partitions, on_delivery=on_delivery)
    left = producer.flush(PATIENCE_S)
    assert (left, failed) == (0, []), f"{left} left, {len(failed)} failed: {failed[:3]}"


def read(servers: str, topic: str, number: str) -> None:
    """Reads the numbers 0 to `number`: each once, and no others."""
    consumer = Consumer({**_quiet(servers), "group.id": "read", "auto.offset.reset": "earliest"})
    partitions = consumer.list_topics(topic, REQUEST_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
    found: list[int] = []
    end_s = time.monotonic() + PATIENCE_S
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, each), REQUEST_S)[1] for each in partitions]
    while len(found) < sum(ends) and time.monotonic() < end_s:
        found += [int(message.value() or b"") for message in consumer.consume(1_000, LOOK_S) if not message.error()]
    assert sorted(found) == list(range(int(number))), f"{len(found)} records, {len(set(found))} different"


def _until(servers: str, is_so: Callable[[ClusterMetadata], bool]) -> ClusterMetadata:
    """The metadata of the broker at `servers`, once `is_so` holds: a new client asks that broker first."""
    end_s = time.monotonic() + PATIENCE_S
    for tries in count(1):
        admin = AdminClient(_quiet(servers))
        try:
            found = admin.list_topics(timeout=REQUEST_S)
            if is_so(found):
                return found
        except Exception as error:  # for example, no broker serves yet
            if time.monotonic() > end_s:
                raise AssertionError(f"after {tries} tries: {error}") from error
        assert time.monotonic() < end_s, f"after {tries} tries: {found.brokers} {found.topics}"
        admin.poll(LOOK_S)  # no event yet: it waits
    raise AssertionError


def _quiet(servers: str) -> dict[str, str | int]:
    return {"bootstrap.servers": servers, "log_level": 0, "reconnect.backoff.max.ms": 500}


WORDS = {
    "brokers": brokers,
    "create": create,
    "in-sync": in_sync,
    "out-of-sync": out_of_sync,
    "produce": produce,
    "read": read,
}

if __name__ == "__main__":
    WORDS[sys.argv[2]](sys.argv[1], *sys.argv[3:])
