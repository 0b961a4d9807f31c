"""Stop Moldau, start Apache Kafka 4.3 on the same directory, and everything is there; and back again.

Needs a Java (JAVA_HOME, or on the PATH) and the jars of Apache Kafka: MOLDAU_KAFKA_LIBS names their directory.
Selected by the marker: `pytest -m java tests/conformance/apache_directory`.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
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
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, NewTopic, ResourceType

from moldau.core.metadata.image import MetadataImage
from moldau.testing import Cluster

pytestmark = [
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
    """Runs one of Kafka's tools to its end and gives what it printed; fails unless it exits 0."""
    command = [java(), "-Xmx256m", "-cp", os.environ["MOLDAU_KAFKA_LIBS"] + "/*", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def free_port() -> int:
    """Below those that connections get: one that has just ended keeps its port from a server for a minute."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def write_properties(scratch: Path, data: Path, settings: Mapping[str, str]) -> tuple[Path, int]:
    """A combined node 1 of Apache Kafka on `data`."""
    port, controller_port = free_port(), free_port()
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
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
def apache_kafka(scratch: Path, data: Path, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """Apache Kafka on `data`, stopped cleanly at the end; gives its bootstrap servers once it serves."""
    scratch.mkdir(exist_ok=True)
    properties, port = write_properties(scratch, data, settings or {})
    if not (data / "meta.properties").exists():
        run_java("kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID, "-c", str(properties))
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


def create_topics(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [NewTopic("orders", 3, 1), NewTopic("small", 1, 1, config=CONFIGS), NewTopic("gone", 1, 1)]
    for future in admin.create_topics(topics).values():
        future.result(CLIENT_S)
    admin.delete_topics(["gone"])["gone"].result(CLIENT_S)


def produce(servers: str, tag: str) -> None:
    """Ten records to each partition of each topic: keys, nulls, headers; idempotent, compressed in turn."""
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
    """Asked again while a broker that has just started does not lead the partition yet."""
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


def fill(servers: str) -> Content:
    create_topics(servers)
    produce(servers, "first")
    commit(servers)
    return read_all(servers)


def check(servers: str, content: Content) -> None:
    """All of it is there, with a leader."""
    topics = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=CLIENT_S).topics
    found = {name: len(topic.partitions) for name, topic in topics.items() if not name.startswith("__")}
    assert found == TOPICS
    assert all(partition.leader == 1 for topic in topics.values() for partition in topic.partitions.values())
    assert read_all(servers) == content
    assert committed(servers) == [COMMITTED] * 3


def add(servers: str, content: Content, tag: str) -> Content:
    """Ten more records in each partition, behind those that are there."""
    produce(servers, tag)
    after = read_all(servers)
    assert all(after[place][: len(rows)] == rows for place, rows in content.items())
    assert all(len(after[place]) == len(rows) + 10 for place, rows in content.items())
    return after


def configs_in_kafka(servers: str, topic: str) -> dict[str, str]:
    """What is set on the topic itself."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": servers})  # kept: its futures end with it
    [future] = admin.describe_configs([resource]).values()
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: entry.value for name, entry in future.result(CLIENT_S).items() if entry.source == own}


def image_of(cluster: Cluster) -> MetadataImage:
    """What the running broker knows. DescribeConfigs is not served yet, so no client can ask for it."""
    return cluster.node.broker.image


def dump(*files: Path, decoder: str | None = None) -> str:
    """What Kafka's own tool prints of these files."""
    options = ["--deep-iteration", *([decoder] if decoder else [])]
    return run_java(
        "org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(str(file) for file in files)
    )


def copy_of(data: Path, name: str) -> Path:
    target = data.parent / name
    shutil.copytree(data, target)
    (target / ".lock").unlink(missing_ok=True)
    return target


def test_apache_kafka_opens_our_directory_and_we_open_it_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Cluster(data_dir=data) as cluster:
        content = fill(cluster.bootstrap_servers)
    with apache_kafka(tmp_path / "kafka", copied := copy_of(data, "copied")) as servers:
        check(servers, content)
        assert configs_in_kafka(servers, "small") == CONFIGS
        assert configs_in_kafka(servers, "orders") == {}
        assert configs_in_kafka(servers, "__consumer_offsets")["cleanup.policy"] == "compact"
        content = add(servers, content, "by Kafka")
    with Cluster(data_dir=copied) as cluster:
        check(cluster.bootstrap_servers, content)
        assert image_of(cluster).topic_configs("small") == CONFIGS
        content = add(cluster.bootstrap_servers, content, "by Moldau")
    with apache_kafka(tmp_path / "kafka", copied) as servers:
        check(servers, content)


def test_we_open_the_directory_of_apache_kafka_with_its_snapshots(tmp_path: Path) -> None:
    data = tmp_path / "data"
    frequent = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
    with apache_kafka(tmp_path / "kafka", data, frequent) as servers:
        content = fill(servers)
    assert len(list(data.glob("__cluster_metadata-0/*.checkpoint"))) > 1
    with Cluster(data_dir=data) as cluster:
        image = image_of(cluster)
        assert image.next_producer_id >= 1_000
        assert image.topic_configs("small") == CONFIGS
        assert image.cluster_defaults() == {"min.insync.replicas": "1"}
        check(cluster.bootstrap_servers, content)
        content = add(cluster.bootstrap_servers, content, "by Moldau")
    with apache_kafka(tmp_path / "kafka", data, frequent) as servers:
        check(servers, content)


def test_apache_kafka_opens_what_a_crash_of_ours_left_and_our_snapshots(tmp_path: Path) -> None:
    data = tmp_path / "data"
    frequent = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
    with Cluster(data_dir=data, settings=frequent) as cluster:
        content = fill(cluster.bootstrap_servers)
        crashed = copy_of(data, "crashed")
    assert len(list(crashed.glob("__cluster_metadata-0/*.checkpoint"))) > 1
    with apache_kafka(tmp_path / "kafka", crashed) as servers:
        check(servers, content)
        content = add(servers, content, "by Kafka")
    with Cluster(data_dir=crashed) as cluster:
        check(cluster.bootstrap_servers, content)


def test_kafkas_tool_reads_every_file_of_ours(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Cluster(data_dir=data, settings={"metadata.log.max.record.bytes.between.snapshots": "2000"}) as cluster:
        fill(cluster.bootstrap_servers)
    metadata = data / "__cluster_metadata-0"
    printed = dump(
        data / "bootstrap.checkpoint",
        *sorted(metadata.glob("*.checkpoint")),
        metadata / f"{0:020d}.log",
        decoder="--cluster-metadata-decoder",
    )
    assert printed.count('"type":"REGISTER_BROKER_RECORD"') >= 1
    assert "isvalid: false" not in printed
    offsets = sorted(data.glob("__consumer_offsets-*/*.log"))
    assert GROUP in dump(*offsets, decoder="--offsets-decoder")
    others = [
        file
        for suffix in ("log", "index", "timeindex", "snapshot")
        for file in sorted(data.glob(f"[os]*-?/*.{suffix}"))
        if file.stat().st_size
    ]
    printed = dump(*others)
    assert printed.count("Dumping ") == len(others)
    for complaint in ("isvalid: false", "mismatch", "Mismatch", "Found ", "not in"):
        assert complaint not in printed


def test_our_directory_holds_the_files_that_apache_kafka_leaves(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with Cluster(data_dir=ours) as cluster:
        fill(cluster.bootstrap_servers)
    with apache_kafka(tmp_path / "kafka", theirs) as servers:
        fill(servers)
    assert files_of(ours) == files_of(theirs)


def files_of(data: Path) -> list[str]:
    """The files of the directory itself, of the metadata log and of partitions that hold records.

    Left out: producer snapshots, whose names tell how many records there are; the lock, which is no data; the note of
    the flushed offset, which Apache Kafka leaves alone (decision 0014); and empty partitions, whose segment files
    Moldau makes with their first record.
    """
    paths = [path for place in (".", "__cluster_metadata-0", "[os]*-?") for path in data.glob(f"{place}/*")]
    names = [str(path.relative_to(data)) for path in paths if path.is_file()]
    return sorted(name for name in names if not name.endswith((".snapshot", ".lock", "/flushed-offset")))
