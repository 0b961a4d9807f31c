"""kill -9 of the broker while it is being written to: what was acknowledged stays, once, in order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.core.config.listeners import Endpoint
from moldau.testing.ports import HeldPorts
from tests.support.running_broker import RunningBroker

TOPIC = "orders"
PARTITIONS = 2
KILLS = 30


def produce_until_killed(
    broker: RunningBroker, kill_after: int, first: int, acknowledged: dict[tuple[int, int], bytes]
) -> int:
    """Writes records without a pause, kills the broker after `kill_after` acknowledgements; gives the next number."""
    seen = 0

    def delivered(error: object, message) -> None:
        nonlocal seen
        if error is None:
            seen += 1
            acknowledged[(message.partition(), message.offset())] = message.value()

    producer = Producer(
        {
            "bootstrap.servers": broker.address,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 200,
            "log_level": 0,
            "on_delivery": delivered,
        }
    )
    number = first
    while seen < kill_after:
        try:
            producer.produce(TOPIC, b"record-%d" % number + b"." * (number % 300), partition=number % PARTITIONS)
            number += 1
        except BufferError:
            producer.poll(0.1)
        if number % 100 == 0:
            producer.poll(0)
    broker.kill()
    # What the broker answered before it died may still be on the way to us: those answers count too.
    producer.poll(0.2)
    producer.purge()
    producer.flush(10)
    return number


def read_everything(address: str) -> dict[tuple[int, int], bytes]:
    """All records of the topic; asserts that offsets are contiguous. librdkafka checks each CRC."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "enable.auto.commit": False,
            "check.crcs": True,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    found: dict[tuple[int, int], bytes] = {}
    next_offset = dict.fromkeys(range(PARTITIONS), 0)
    open_partitions = set(range(PARTITIONS))
    while open_partitions:
        for message in consumer.consume(10_000, timeout=30):
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                open_partitions.discard(message.partition())
                continue
            assert message.offset() == next_offset[message.partition()]
            next_offset[message.partition()] += 1
            found[(message.partition(), message.offset())] = message.value()
    consumer.close()
    return found


@pytest.mark.slow
def test_no_acknowledged_record_is_lost_in_thirty_kills(tmp_path: Path) -> None:
    choices = random.Random(20_26)
    # One port for all lives, as an operator has it: held, so that no connection of a test beside is given it.
    ports = HeldPorts()
    (listener,) = ports.choose((Endpoint("PLAINTEXT", "127.0.0.1", 0),))
    arguments = ["--data-dir", str(tmp_path / "data"), "--listen", f"127.0.0.1:{listener.port}"]
    # Small segments, so that kills also fall on rolls.
    arguments += ["--set", "log.segment.bytes=1048576"]
    broker = RunningBroker(*arguments).wait_until_ready()
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(timeout=30)
    acknowledged: dict[tuple[int, int], bytes] = {}
    number = 0
    for _ in range(KILLS):
        number = produce_until_killed(broker, choices.randrange(1, 8_000), number, acknowledged)
        broker = RunningBroker(*arguments).wait_until_ready()
    found = read_everything(broker.address)
    assert broker.stop() == 0
    ports.release()
    lost = [where for where, value in acknowledged.items() if found.get(where) != value]
    assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged records are missing or changed: {lost[:5]}"
    values = list(found.values())
    assert len(values) == len(set(values)), "an idempotent producer's record is there twice"
