"""A real process on a failing disk reports the failure and ends with exit code 1, as Apache Kafka does.

The kernel makes the errors, without privileges: a file may not grow beyond RLIMIT_FSIZE (EFBIG), and the first page of
`/proc/self/mem` cannot be read (EIO).
"""

from __future__ import annotations

import os
import re
import resource
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.running_broker import RunningBroker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="prlimit and /proc are Linux's")

KAFKA_STORAGE_ERROR = 56
LIMIT_BYTES = 4_000
VALUE = b"v" * 3_000
"""One record fits into a log file of LIMIT_BYTES, but not two."""
MANY = 200
"""The records of a topic with so many partitions do not fit either."""
WAIT_S = 60


def start(directory: Path, *arguments: str) -> RunningBroker:
    broker = RunningBroker("--data-dir", str(directory), "--listen", "127.0.0.1:0", "--no-console", *arguments)
    return broker.wait_until_ready()


def create(address: str, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(WAIT_S)


def let_disk_fail(process_id: int) -> None:
    resource.prlimit(process_id, resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))


def new_producer(address: str) -> Producer:
    return Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 0, "log_level": 0})


def write(producer: Producer) -> list[object]:
    """Gives the errors of one record."""
    errors: list[object] = []
    producer.produce("events", VALUE, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WAIT_S) == 0
    return errors


def read(address: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "nobody", "log_level": 0})
    place = TopicPartition("events", 0, 0)
    consumer.assign([place])
    _, end = consumer.get_watermark_offsets(place, WAIT_S)
    values = [message.value() for message in consumer.consume(end, WAIT_S)]
    consumer.close()
    return values


@pytest.mark.slow
def test_a_broker_whose_only_log_directory_fails_halts_and_loses_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    broker = start(directory)
    create(broker.address, "events")
    producer = new_producer(broker.address)
    assert write(producer) == [None]
    let_disk_fail(broker.process.pid)
    producer.produce("events", VALUE, partition=0)
    producer.flush(0)
    assert broker.wait_until_ended() == 1
    producer.purge()
    failed = "write events-0/00000000000000000000.log: File too large"
    assert [line.split(" ERROR ")[1] for line in broker.output if " ERROR " in line] == [
        f"node 1: {directory} failed and is offline: {failed}\n",
        f"node 1 halts: Shutdown broker because all log dirs in {directory} have failed: {failed}\n",
    ]
    broker = start(directory)
    assert read(broker.address) == [VALUE]
    assert broker.stop() == 0


def test_a_broker_whose_metadata_log_cannot_be_written_answers_and_halts(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    broker = start(directory)
    create(broker.address, "events")
    let_disk_fail(broker.process.pid)
    with pytest.raises(KafkaException) as refused:
        create(broker.address, "many", MANY)
    assert refused.value.args[0].code() == KAFKA_STORAGE_ERROR
    assert broker.wait_until_ended() == 1
    failed = "write __cluster_metadata-0/00000000000000000000.log: File too large"
    halts = f"node 1 halts: Shutdown broker because all log dirs in {directory} have failed: {failed}\n"
    assert broker.output[-1].endswith(halts)
    broker = start(directory)
    topics = AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=WAIT_S).topics
    assert list(topics) == ["events"]
    assert broker.stop() == 0


@pytest.mark.slow
def test_a_broker_with_a_failed_disk_is_restarted_and_no_client_sees_an_error(tmp_path: Path) -> None:
    cluster = start(tmp_path / "data", "--brokers", "3")
    create(cluster.address, "events")
    producer = new_producer(cluster.address)
    assert write(producer) == [None]
    admin = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
    leader = admin.list_topics("events", timeout=WAIT_S).topics["events"].partitions[0].leader
    process = re.search(rf"node {leader} .* process (\d+)", "".join(cluster.output))
    assert process is not None
    let_disk_fail(int(process[1]))
    assert write(producer) == [None]
    cluster.wait_until_told(f"node {leader} serves again")
    told = "".join(cluster.output)
    directory = tmp_path / "data" / f"node-{leader}"
    assert f"node {leader} halts: Shutdown broker because all log dirs in {directory} have failed: write " in told
    assert f"node {leader} (process {process[1]}) ended with exit code 1" in told
    assert read(cluster.address) == [VALUE, VALUE]
    assert cluster.stop() == 0


def test_a_broker_that_cannot_read_its_metadata_ends_with_one_sentence(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    assert start(directory).stop() == 0
    state = directory / "__cluster_metadata-0" / "quorum-state"
    state.unlink()
    os.symlink("/proc/self/mem", state)
    broker = RunningBroker("--data-dir", str(directory), "--listen", "127.0.0.1:0", "--no-console")
    assert broker.wait_until_ended() == 1
    assert broker.output == [f"moldau: {directory}: read __cluster_metadata-0/quorum-state: Input/output error\n"]
