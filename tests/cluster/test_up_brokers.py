"""`moldau up --brokers 3`: one command runs a cluster, whose data survives restarts."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.running_broker import RunningBroker

WAIT_S = 60


def write(address: str, values: list[str]) -> None:
    failed: list[str] = []
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0})
    for value in values:
        producer.produce(
            "events", value, on_delivery=lambda error, _: failed.append(str(error)) if error is not None else None
        )
    assert producer.flush(WAIT_S) == 0
    assert failed == []


def read(address: str, count: int) -> list[str]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "nobody", "log_level": 0})
    consumer.assign([TopicPartition("events", 0, 0)])
    values = [str(message.value(), "utf-8") for message in consumer.consume(count, WAIT_S)]
    consumer.close()
    return values


def process_of(broker: RunningBroker, node_id: int) -> int:
    found = re.search(rf"node {node_id} .* process (\d+)", "".join(broker.output))
    assert found is not None
    return int(found[1])


@pytest.mark.slow
def test_a_killed_node_is_started_again_and_the_next_start_continues_the_cluster(tmp_path: Path) -> None:
    directory = str(tmp_path / "data")
    cluster = RunningBroker("--brokers", "3", "--data-dir", directory, "--listen", "127.0.0.1:0").wait_until_ready()
    assert cluster.address.count(",") == 2
    admin = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
    admin.create_topics([NewTopic("events", 1)])["events"].result(WAIT_S)
    write(cluster.address, ["before"])
    # acknowledged by all three: each of them knows the topic
    partition = admin.list_topics("events", timeout=WAIT_S).topics["events"].partitions[0]
    assert sorted(partition.replicas) == [1, 2, 3]
    os.kill(process_of(cluster, partition.leader), signal.SIGKILL)
    write(cluster.address, ["without"])
    cluster.wait_until_told(f"node {partition.leader} serves again")
    assert any("was killed by SIGKILL and is started again in 0.5 s" in line for line in cluster.output)
    assert cluster.stop(signal.SIGINT) == 0
    assert sum("stopped" in line for line in cluster.output) == 3

    cluster = RunningBroker("--data-dir", directory, "--listen", "127.0.0.1:0").wait_until_ready()
    write(cluster.address, ["after"])
    assert read(cluster.address, 3) == ["before", "without", "after"]
    assert cluster.stop() == 0


@pytest.mark.slow
def test_replicas_are_moved_with_a_throttle_that_all_brokers_take(tmp_path: Path) -> None:
    cluster = RunningBroker("--brokers", "3", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    address = cluster.wait_until_ready().address
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    admin.create_topics([NewTopic("events", 1, replica_assignment=[[1, 2]])])["events"].result(WAIT_S)
    write(address, ["before"])
    moves = tmp_path / "moves.json"
    moves.write_text('{"version": 1, "partitions": [{"topic": "events", "partition": 0, "replicas": [3, 2]}]}')
    tool = [sys.executable, "-m", "moldau.cli.main", "kafka-reassign-partitions", "--bootstrap-server", address]
    started = subprocess.run(
        [*tool, "--execute", "--throttle", "1000000", "--reassignment-json-file", str(moves)], timeout=60
    )
    assert started.returncode == 0
    told = ""
    for _ in range(WAIT_S):
        done = subprocess.run(
            [*tool, "--verify", "--reassignment-json-file", str(moves)], capture_output=True, text=True, timeout=60
        )
        told = done.stdout
        if "is completed" in told:
            break
    assert "Clearing broker-level throttles on brokers 1,2,3" in told
    words = ["kafka-configs", "--bootstrap-server", address, "--describe", "--broker", "1"]
    shown = subprocess.run(
        [sys.executable, "-m", "moldau.cli.main", *words], capture_output=True, text=True, timeout=60
    )
    assert "throttled.rate" not in shown.stdout
    assert sorted(admin.list_topics("events", timeout=WAIT_S).topics["events"].partitions[0].replicas) == [2, 3]
    assert read(address, 1) == ["before"]
    assert cluster.stop() == 0


def voters_of(address: str) -> list[list[str]]:
    """The id, directory, and other columns of each voter."""
    words = ["kafka-metadata-quorum", "--bootstrap-server", address, "describe", "--replication"]
    done = subprocess.run([sys.executable, "-m", "moldau.cli.main", *words], capture_output=True, text=True, timeout=60)
    print(done.stdout, done.stderr)  # shown if the test fails
    rows = [line.split() for line in done.stdout.splitlines()]
    return [row for row in rows if row[-1] in ("Leader", "Follower")]


@pytest.mark.slow
def test_a_node_that_lost_its_directory_and_a_new_one_become_voters(tmp_path: Path) -> None:
    arguments = "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0", "--no-console"
    cluster = RunningBroker("--brokers", "3", *arguments).wait_until_ready()
    admin = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
    admin.create_topics([NewTopic("events", 1)])["events"].result(WAIT_S)
    write(cluster.address, ["before"])
    first = voters_of(cluster.address)
    assert sorted(row[0] for row in first) == ["1", "2", "3"]
    assert cluster.stop() == 0

    shutil.rmtree(tmp_path / "node-2")
    cluster = RunningBroker("--brokers", "4", *arguments).wait_until_ready()
    ids: list[str] = []
    stayed: set[str] = set()
    for _ in range(WAIT_S):  # node 4 may become a voter before node 2's new directory replaces the lost one
        voters = voters_of(cluster.address)
        ids, stayed = sorted(row[0] for row in voters), {row[1] for row in voters} & {row[1] for row in first}
        if ids == ["1", "2", "3", "4"] and len(stayed) == 2:
            break
    assert ids == ["1", "2", "3", "4"]
    assert len(stayed) == 2  # node 2 has another directory
    write(cluster.address, ["after"])
    assert read(cluster.address, 2) == ["before", "after"]
    assert cluster.stop() == 0


@pytest.mark.slow
def test_after_two_directories_are_lost_the_third_is_recovered_and_copied(tmp_path: Path) -> None:
    arguments = "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0", "--no-console"
    cluster = RunningBroker("--brokers", "3", *arguments).wait_until_ready()
    admin = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
    admin.create_topics([NewTopic("events", 1)])["events"].result(WAIT_S)
    write(cluster.address, ["before"])
    assert cluster.stop() == 0
    for lost in ("node-1", "node-3"):
        shutil.rmtree(tmp_path / lost)
    words = ["quorum", "recover", str(tmp_path / "node-2.properties"), "--yes"]
    subprocess.run([sys.executable, "-m", "moldau.cli.main", *words], check=True, timeout=60, stdout=subprocess.DEVNULL)
    cluster = RunningBroker(*arguments).wait_until_ready()
    write(cluster.address, ["after"])  # acknowledged by two of them
    assert read(cluster.address, 2) == ["before", "after"]
    assert cluster.stop() == 0


@pytest.mark.slow
def test_no_node_outlives_the_command(tmp_path: Path) -> None:
    cluster = RunningBroker("--brokers", "3", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    cluster.wait_until_ready()
    # its nodes hold its output open until the last of them has ended
    cluster.kill()
    assert sum("stopped" in line for line in cluster.output) == 3


def test_a_data_directory_that_is_a_file_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    cluster = RunningBroker("--brokers", "3", "--data-dir", str(tmp_path / "data"))
    assert cluster.wait_until_ended() == 1
    assert cluster.output == [f"moldau: {tmp_path / 'data'} is a file, not a directory\n"]


@pytest.mark.slow
def test_a_cluster_that_runs_is_not_started_twice(tmp_path: Path) -> None:
    arguments = ("--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--no-console")
    cluster = RunningBroker("--brokers", "3", *arguments).wait_until_ready()
    try:
        second = RunningBroker(*arguments)
        assert second.wait_until_ended() == 1
        assert second.output == [f"moldau: {tmp_path / 'data'} is in use: `moldau up` runs there already\n"]
    finally:
        assert cluster.stop() == 0
    assert not (tmp_path / "data" / ".lock").exists()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--brokers", "3", "--in-memory"], "--in-memory runs one broker"),
        (["--brokers", "0"], "--brokers takes 1 to 9"),
        (["--brokers", "3", "--set", "node.id=4"], "node.id is not yours to set"),
        (["--brokers", "3", "--set", "num.partitions=x"], "num.partitions"),
    ],
)
def test_what_a_cluster_cannot_be_is_said(tmp_path: Path, arguments: list[str], word: str) -> None:
    where = [] if "--in-memory" in arguments else ["--data-dir", str(tmp_path / "data")]
    broker = RunningBroker(*arguments, *where, "--listen", "127.0.0.1:0", "--no-console")
    assert broker.wait_until_ended() == 1
    assert word in "".join(broker.output)
