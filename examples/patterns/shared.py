"""What the three programs share: consumers, numbered records, and results for the picture."""

import json
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, Producer

ADDRESS = {"bootstrap.servers": "127.0.0.1:9092"}
KEYS = 6


def member(group: str) -> Consumer:
    """A consumer that begins at the first record and commits only what it says."""
    return Consumer({**ADDRESS, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False})


def write(topic: str, count: int, partitions: int = 0) -> None:
    """Writes 0, 1, 2, ... with the keys 0 to 5 in turn. `partitions`: writes to each in turn; 0: by the key's hash."""
    producer = Producer({**ADDRESS, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, b"%d" % number, b"%d" % (number % KEYS), number % partitions if partitions else -1)
    producer.flush()


def read(topic: str, group: str, count: int) -> Iterator[int]:
    """Reads the numbers of a topic as the only member of a group."""
    consumer = member(group)
    consumer.subscribe([topic])
    while count:
        message = consumer.poll(1.0)
        if message is not None and not message.error():
            yield int(message.value())
            count -= 1
    consumer.close()


def save(name: str, result: object) -> None:
    Path("out").mkdir(exist_ok=True)
    Path(f"out/{name}.json").write_text(json.dumps(result), encoding="utf-8")
