"""Apache Kafka on a directory, its tools, and requests to it."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

NEEDS_APACHE_KAFKA = [
    pytest.mark.java,
    pytest.mark.skipif("MOLDAU_KAFKA_LIBS" not in os.environ, reason="MOLDAU_KAFKA_LIBS names no Apache Kafka"),
]

START_S = 60

CLIENT_S = 30

TOPICS = {"orders": 3, "small": 1}

CONFIGS = {"retention.ms": "86400000000", "segment.bytes": "1048576"}

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"

GROUP = "readers"

COMMITTED = 4

LEADER_ON_ITS_WAY = (3, 5, 6)

COORDINATOR_ON_ITS_WAY = (14, 15, 16)

Content = dict[tuple[str, int], list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]]


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def run_java(*arguments: str) -> str:
    """Runs one of Kafka's tools to its end and gives its output; fails unless it exits 0."""
    command = [java(), "-Xmx256m", "-cp", os.environ["MOLDAU_KAFKA_LIBS"] + "/*", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_with_kafkas_tools(servers: str, voters: Sequence[int]) -> None:
    """By Kafka's own tools these nodes vote, one of them leads, and every replica is in sync."""
    words = ("--bootstrap-server", servers)
    told = run_java("org.apache.kafka.tools.MetadataQuorumCommand", *words, "describe", "--replication")
    rows = [line.split() for line in told.splitlines()]
    assert sorted(int(row[0]) for row in rows if row[-1] in ("Leader", "Follower")) == sorted(voters), told
    assert [row[-1] for row in rows].count("Leader") == 1, told
    lacking = run_java("org.apache.kafka.tools.TopicCommand", *words, "--describe", "--under-replicated-partitions")
    assert lacking.strip() == "", lacking


def free_port() -> int:
    """Below the ports of outgoing connections: a closed connection keeps its port from a server for a minute."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def write_properties(
    scratch: Path, data: Path, settings: Mapping[str, str], listeners: Sequence[str] = ()
) -> tuple[Path, int]:
    """For a combined node 1 of Apache Kafka on `data`. `listeners`: further ones, as NAME://HOST:PORT."""
    port, controller_port = free_port(), free_port()
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "listeners": ",".join(
            (f"PLAINTEXT://127.0.0.1:{port}", f"CONTROLLER://127.0.0.1:{controller_port}", *listeners)
        ),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(data),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **settings,
    }
    path = scratch / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return path, port


@contextmanager
def apache_kafka(
    scratch: Path,
    data: Path,
    settings: Mapping[str, str] | None = None,
    *,
    release: str | None = None,
    listeners: Sequence[str] = (),
) -> Iterator[str]:
    """Apache Kafka on `data`, stopped cleanly at the end; gives its bootstrap servers once it serves. `release`: the
    feature levels of a new directory, if they are not its own. `listeners`: see `write_properties`."""
    scratch.mkdir(exist_ok=True)
    properties, port = write_properties(scratch, data, settings or {}, listeners)
    if not (data / "meta.properties").exists():
        words = ["format", "--standalone", "-t", CLUSTER_ID, "-c", str(properties)]
        words += ["--release-version", release] if release else []
        run_java("kafka.tools.StorageTool", *words)
    output = scratch / "server.log"
    command = [java(), "-Xmx512m", "-cp", os.environ["MOLDAU_KAFKA_LIBS"] + "/*", "kafka.Kafka", str(properties)]
    with output.open("w") as log:
        process = subprocess.Popen(command, cwd=scratch, stdout=log, stderr=subprocess.STDOUT)
    try:
        servers = f"127.0.0.1:{port}"
        wait_until_served(servers, process, output)
        yield servers
    finally:
        process.terminate()
        process.wait(START_S)
    errors = [line for line in output.read_text().splitlines() if " ERROR " in line]
    assert errors == []


def wait_until_served(servers: str, process: subprocess.Popen[bytes], output: Path) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for _ in range(START_S):
        assert process.poll() is None, output.read_text()
        try:
            if admin.list_topics(timeout=1).brokers:
                return
        except KafkaException:
            continue
    pytest.fail(output.read_text())


def create_topics(servers: str, factor: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [NewTopic("orders", 3, factor), NewTopic("small", 1, factor, config=CONFIGS), NewTopic("gone", 1, factor)]
    for future in admin.create_topics(topics).values():
        future.result(CLIENT_S)
    admin.delete_topics(["gone"])["gone"].result(CLIENT_S)


def produce(servers: str, tag: str) -> None:
    """Ten records to each partition of each topic: keys, nulls, headers; idempotent, each batch with the next codec."""
    for number, compression in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "compression.type": compression, "linger.ms": 50}
        )
        for topic, partitions in TOPICS.items():
            for partition in range(partitions):
                for row in range(2):
                    producer.produce(
                        topic,
                        key=None if row else f"k{number}".encode(),
                        value=f"{tag}-{topic}-{partition}-{compression}-{row}".encode() * 10,
                        partition=partition,
                        headers=[("h", b"\x00\xff"), ("n", None)],
                    )
        assert producer.flush(CLIENT_S) == 0


def read_all(servers: str) -> Content:
    """Everything in the topics, by partition, in order."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "nobody", "enable.auto.commit": False})
    content: Content = {}
    for topic, partitions in TOPICS.items():
        for partition in range(partitions):
            place = TopicPartition(topic, partition, OFFSET_BEGINNING)
            end = end_offset(consumer, place)
            consumer.assign([place])
            rows = content.setdefault((topic, partition), [])
            for offset in range(end):
                message = consumer.poll(CLIENT_S)
                assert message is not None
                assert message.error() is None
                assert message.offset() == offset
                rows.append((message.key(), message.value(), tuple(message.headers() or ())))
    consumer.close()
    return content


def end_offset(consumer: Consumer, place: TopicPartition) -> int:
    """Retried while a broker that has just started does not lead the partition yet."""
    for _ in range(CLIENT_S):
        try:
            _, end = consumer.get_watermark_offsets(place, timeout=CLIENT_S)
        except KafkaException as error:
            if error.args[0].code() not in LEADER_ON_ITS_WAY:
                raise
            consumer.poll(1)
        else:
            assert isinstance(end, int)
            return end
    pytest.fail(f"{place} has no leader")


def commit(servers: str) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": GROUP, "enable.auto.commit": False})
    places = [TopicPartition("orders", partition, COMMITTED) for partition in range(3)]
    for _ in range(CLIENT_S):
        try:
            consumer.commit(offsets=places, asynchronous=False)
            break
        except KafkaException as error:
            if error.args[0].code() not in COORDINATOR_ON_ITS_WAY:
                raise
            consumer.poll(1)
    consumer.close()
    assert committed(servers) == [COMMITTED] * 3


def committed(servers: str) -> list[int]:
    admin = AdminClient({"bootstrap.servers": servers})
    request = ConsumerGroupTopicPartitions(GROUP, [TopicPartition("orders", partition) for partition in range(3)])
    [future] = admin.list_consumer_group_offsets([request]).values()
    return [place.offset for place in future.result(CLIENT_S).topic_partitions]


def fill(servers: str, factor: int = 1) -> Content:
    create_topics(servers, factor)
    produce(servers, "first")
    commit(servers)
    return read_all(servers)


def add(servers: str, content: Content, tag: str) -> Content:
    """Writes ten more records to each partition."""
    produce(servers, tag)
    after = read_all(servers)
    assert all(after[place][: len(rows)] == rows for place, rows in content.items())
    assert all(len(after[place]) == len(rows) + 10 for place, rows in content.items())
    return after


def check(servers: str, content: Content, brokers: tuple[int, ...] = (1,)) -> None:
    """All records are there, with a leader among `brokers`."""
    topics = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=CLIENT_S).topics
    found = {name: len(topic.partitions) for name, topic in topics.items() if not name.startswith("__")}
    assert found == TOPICS
    assert all(partition.leader in brokers for topic in topics.values() for partition in topic.partitions.values())
    assert read_all(servers) == content
    assert committed(servers) == [COMMITTED] * 3


def dump(*files: Path, decoder: str | None = None) -> str:
    """The output of Kafka's own tool for these files."""
    options = ["--deep-iteration", *([decoder] if decoder else [])]
    return run_java(
        "org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(str(file) for file in files)
    )


def copy_of(data: Path, name: str) -> Path:
    target = data.parent / name
    shutil.copytree(data, target)
    (target / ".lock").unlink(missing_ok=True)
    return target
