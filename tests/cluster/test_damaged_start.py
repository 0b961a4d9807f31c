"""A real process on a damaged directory: it serves the readable data, or ends with one sentence."""

from __future__ import annotations

import struct
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.running_broker import RunningBroker

CORRUPT_MESSAGE = 2


def start(directory: Path) -> RunningBroker:
    return RunningBroker("--data-dir", str(directory), "--listen", "127.0.0.1:0", "--no-console")


def values(broker: RunningBroker, topic: str, offset: int, wanted: int) -> tuple[list[bytes], list[int]]:
    """The records of a consumer from `offset` on, until it has `wanted` records or an error; and the errors."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, offset)])
    found: list[bytes] = []
    errors: list[int] = []
    for _ in range(60):
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            errors.append(error.code())
            break
        found.append(message.value())
        if len(found) == wanted:
            break
    consumer.close()
    return found, errors


def test_a_damaged_length_hangs_nothing_and_a_stop_still_ends_the_process(tmp_path: Path) -> None:
    broker = start(tmp_path / "data").wait_until_ready()
    admin = AdminClient({"bootstrap.servers": broker.address})
    topics = [NewTopic(topic, 1, 1, config={"segment.bytes": "1048576"}) for topic in ("one", "other")]
    for created in admin.create_topics(topics).values():
        created.result(30)
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})
    written = [b"%d" % number * 300_000 for number in range(9)]
    for value in written:
        for topic in ("one", "other"):
            producer.produce(topic, value)
            assert producer.flush(30) == 0
    assert broker.stop() == 0
    path = tmp_path / "data" / "one-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    first = 12 + struct.unpack_from(">i", data, 8)[0]
    struct.pack_into(">i", data, first + 8, -12)
    path.write_bytes(data)

    broker = start(tmp_path / "data").wait_until_ready()
    assert values(broker, "other", 0, 9) == (written, [])
    assert values(broker, "one", 2, 7) == (written[2:], [])
    assert values(broker, "one", 1, 1) == ([], [CORRUPT_MESSAGE])
    assert broker.stop() == 0
    assert sum("one-0/00000000000000000000.log: " in line for line in broker.output) == 1


def test_a_directory_whose_metadata_is_damaged_is_refused_with_one_sentence(tmp_path: Path) -> None:
    broker = start(tmp_path / "data").wait_until_ready()
    assert broker.stop() == 0
    path = tmp_path / "data" / "__cluster_metadata-0" / "quorum-state"
    path.write_bytes(path.read_bytes()[:20])
    broker = start(tmp_path / "data")
    broker.process.wait(timeout=60)
    assert broker.stop() == 1
    assert len(broker.output) == 1
    assert "__cluster_metadata-0/quorum-state cannot be read" in broker.output[0]
