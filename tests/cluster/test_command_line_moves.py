"""Commands move replicas while clients write: no client sees an error, and no record is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from moldau.client.admin.reassignments import BROKER_THROTTLES
from moldau.testing import Cluster
from tests.support.load import under_load
from tests.support.running_broker import RunningBroker
from tests.support.talking_process import TalkingProcess

PATIENCE_S = 60
TOPIC = "orders"
BROKERS = (1, 2, 3, 4)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=len(BROKERS)) as cluster:
        cluster.create_topic("few", partitions=2)
        yield cluster


def run(cluster: Cluster, *words: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "moldau.cli.main", *words, "-b", cluster.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def replicas(cluster: Cluster, topic: str) -> list[set[int]]:
    lines = run(cluster, "partitions", "describe", topic, "--json")
    return [set(row["replicas"]) for row in json.loads(lines)]


@pytest.mark.slow
def test_a_broker_is_taken_out_under_load(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic(TOPIC, partitions=4)
    with under_load(cluster.bootstrap_servers, tmp_path / "history.jsonl", TOPIC, 4):
        shown = run(cluster, "brokers", "decommission", "4")
        assert "nothing was changed" in shown
        told = run(cluster, "brokers", "decommission", "4", "--execute", "--throttle", "50000000")
        assert "broker 4 holds no replica any more" in told
        left = [line.partition("#")[0].split() for line in told.splitlines() if line.startswith("  moldau ")]
        # it does not vote; the address is that of another broker, because this one is stopped first
        assert [words[1:-1] for words in left] == [["kafka-cluster", "unregister", "--id", "4", "--bootstrap-server"]]
        assert left[0][-1] in cluster.bootstrap_servers.split(",")[:3]
        assert all(4 not in each for each in replicas(cluster, TOPIC))
        assert f"kafka-cluster unregister --id 4 --bootstrap-server {left[0][-1]}" in run(
            cluster, "brokers", "decommission", "4"
        )
        for verb in ("describe", "decommission"):
            assert "there is no broker 99, only 1, 2, 3, 4" in run(cluster, "brokers", verb, "99", code=1)
        cluster.kill(4)
    cluster.restart(4)


def create_on(admin: AdminClient, topic: str, *brokers: int) -> None:
    new = NewTopic(topic, 1, replica_assignment=[[*brokers]])
    admin.create_topics([new])[topic].result(PATIENCE_S)


@contextmanager
def taking_out_slowly(cluster: Cluster, admin: AdminClient, topic: str) -> Iterator[TalkingProcess]:
    """The command that empties broker 4 runs, and moves this topic at one byte per second."""
    with moving_slowly(cluster, admin, topic, "brokers", "decommission", "4") as command:
        yield command


@contextmanager
def moving_slowly(cluster: Cluster, admin: AdminClient, topic: str, *words: str) -> Iterator[TalkingProcess]:
    """As `taking_out_slowly`, for any command that moves the topic away from broker 4. Killed at the end of the
    block."""
    create_on(admin, topic, 4, 1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for _ in range(30):
        producer.produce(topic, bytes(100_000))
    assert producer.flush(PATIENCE_S) == 0
    command = started(cluster, *words, "--execute", "--throttle", "1")
    try:
        for _ in range(PATIENCE_S):
            if topic in run(cluster, "partitions", "reassignments"):
                break
        else:
            raise AssertionError("the move has not begun")
        yield command
    finally:
        command.kill()


def started(cluster: Cluster, *words: str) -> TalkingProcess:
    return TalkingProcess([sys.executable, "-m", "moldau.cli.main", *words, "-b", cluster.bootstrap_servers])


def throttles(cluster: Cluster, kind: str, name: str) -> dict[str, str]:
    rows = json.loads(run(cluster, "configs", "describe", kind, name, "--json"))
    return {row["setting"]: row["value"] for row in rows if "throttled" in row["setting"] and row["value"]}


def throttles_of(cluster: Cluster, topic: str) -> list[dict[str, str]]:
    """Of the topic, and of each broker."""
    return [throttles(cluster, "topic", topic), *(throttles(cluster, "broker", str(one)) for one in BROKERS)]


def hurry(admin: AdminClient) -> None:
    """Removes the throttle of every replica."""
    changes = [ConfigEntry(one, str(10**9), incremental_operation=AlterConfigOpType.SET) for one in BROKER_THROTTLES]
    for broker in BROKERS:
        resource = ConfigResource(ConfigResource.Type.BROKER, str(broker), incremental_configs=changes)
        admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


@pytest.mark.slow
def test_what_is_placed_on_a_broker_while_it_is_taken_out_is_moved_too(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    with taking_out_slowly(cluster, admin, "heavy") as command:
        create_on(admin, "late", 4, 1)
        hurry(admin)
        assert command.wait_for(lambda line: "holds no replica any more" in line, time.monotonic() + PATIENCE_S)
    moved = [each for topic in ("heavy", "late") for each in replicas(cluster, topic)]
    assert [(len(each), 4 in each) for each in moved] == [(2, False)] * 2


@pytest.mark.slow
def test_repeating_an_interrupted_command_drains_a_broker(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    with taking_out_slowly(cluster, admin, "heavier"):
        pass
    told = run(cluster, "brokers", "decommission", "4")
    assert "1 partition still moving away from broker 4" in told
    assert "any more" not in told
    again = ("brokers", "decommission", "4", "--execute", "--throttle")
    command = started(cluster, *again, "2")
    try:
        for _ in range(PATIENCE_S):
            if set(throttles(cluster, "broker", "4").values()) == {"2"}:
                break
        else:
            raise AssertionError("the second command has not set its throttle")
    finally:
        command.kill()
    assert "holds no replica any more" in run(cluster, *again, "1000000000")
    [moved] = replicas(cluster, "heavier")
    assert (len(moved), 4 in moved) == (2, False)
    assert not any(throttles_of(cluster, "heavier"))


@pytest.mark.slow
def test_repeating_an_interrupted_command_places_partitions(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    words = ("partitions", "reassign", "placed", "--brokers", "1,2")
    with moving_slowly(cluster, admin, "placed", *words):
        pass
    assert all(throttles_of(cluster, "placed")[:2])
    told = run(cluster, *words)
    assert "1 partition still moving" in told
    assert "where it shall be" not in told
    told = run(cluster, *words, "--execute")
    assert "0 of 1 partitions are still moving" in told
    assert "every replica is where it shall be" in told
    assert replicas(cluster, "placed") == [{1, 2}]
    assert not any(throttles_of(cluster, "placed"))


@pytest.mark.slow
def test_partitions_get_more_replicas_and_other_brokers(cluster: Cluster) -> None:
    run(cluster, "partitions", "reassign", "few", "--replication-factor", "1", "--brokers", "1", "--execute")
    assert replicas(cluster, "few") == [{1}, {1}]
    assert "nothing was changed" in run(cluster, "partitions", "reassign", "few:1", "--replication-factor", "2")
    run(cluster, "partitions", "reassign", "few:1", "--replication-factor", "2", "--brokers", "1,3", "--execute")
    assert replicas(cluster, "few") == [{1}, {1, 3}]
    assert "every replica is where it shall be" in run(cluster, "partitions", "reassign", "few")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("few", "--brokers", "9"), "broker 9 does not serve; those that do: 1, 2, 3, 4"),
        (("few", "--brokers", "1,x"), "such as 1,2,3"),
        (("few", "--replication-factor", "5"), "needs 5 brokers, and there are 4"),
        (("few", "--replication-factor", "0"), "at least one replica"),
        (("none",), "unknown topic or partition: none"),
    ],
)
def test_what_cannot_be_is_refused(cluster: Cluster, words: tuple[str, ...], why: str) -> None:
    code = 2 if "1,x" in words else 1
    assert why in run(cluster, "partitions", "reassign", *words, code=code)


def kafka_reassign(servers: str, file: Path, moves: list[dict[str, object]], *flags: str, code: int = 0) -> str:
    """The output of Kafka's tool, and of ours."""
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    words = ["kafka-reassign-partitions", "--bootstrap-server", servers, "--reassignment-json-file", str(file), *flags]
    command = [sys.executable, "-m", "moldau.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_another_number_of_replicas_is_refused_where_it_is_not_wanted(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("fixed")
    more: list[dict[str, object]] = [{"topic": "fixed", "partition": 0, "replicas": [1, 2, 3, 4]}]
    flags = ("--execute", "--disallow-replication-factor-change")
    told = kafka_reassign(cluster.bootstrap_servers, tmp_path / "moves.json", more, *flags, code=1)
    assert "Error reassigning partition(s):\nfixed-0: " in told
    assert len(replicas(cluster, "fixed")[0]) == 3


@pytest.mark.slow
def test_the_throttles_stay_while_a_move_of_another_file_is_under_way(cluster: Cluster, tmp_path: Path) -> None:
    def moved(topic: str) -> list[dict[str, object]]:
        [held] = replicas(cluster, topic)
        [free] = {1, 2, 3, 4} - held
        return [{"topic": topic, "partition": 0, "replicas": [*sorted(held)[1:], free]}]

    servers, slow, quick = cluster.bootstrap_servers, tmp_path / "slow.json", tmp_path / "quick.json"
    for topic in ("slow", "quick"):
        cluster.create_topic(topic)
    producer = Producer({"bootstrap.servers": servers})
    for _ in range(30):
        producer.produce("slow", bytes(100_000))
    assert producer.flush(PATIENCE_S) == 0
    moves = moved("slow")
    kafka_reassign(servers, slow, moves, "--execute", "--throttle", "1")
    others = moved("quick")
    kafka_reassign(servers, quick, others, "--execute", "--additional")
    for _ in range(PATIENCE_S):
        told = kafka_reassign(servers, quick, others, "--verify")
        if "partition quick-0 is completed" in told:
            break
    assert "partition quick-0 is completed" in told
    assert "Clearing" not in told
    assert "Clearing" in kafka_reassign(servers, slow, moves, "--cancel")


def test_a_deleted_topic_in_the_file_keeps_no_throttle_on_the_others(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("kept")
    [held] = replicas(cluster, "kept")
    moves: list[dict[str, object]] = [{"topic": "kept", "partition": 0, "replicas": sorted(held)}]
    file = tmp_path / "moves.json"
    kafka_reassign(cluster.bootstrap_servers, file, moves, "--execute", "--throttle", "1000000")
    assert "throttled.replicas" in run(cluster, "configs", "describe", "topic", "kept")
    moves.append({"topic": "deleted", "partition": 0, "replicas": [1]})
    told = kafka_reassign(cluster.bootstrap_servers, file, moves, "--verify", code=1)
    assert "Reassignment of partition kept-0 is completed." in told
    assert "no active reassignment of partition deleted-0, but replica set is  rather than 1." in told
    assert "The topic 'deleted' does not exist." in told
    assert "throttled.replicas" not in run(cluster, "configs", "describe", "topic", "kept")


def with_two_log_directories(tmp_path: Path) -> tuple[RunningBroker, Path, Path]:
    """A node with the topic orders of one partition; gives the log directory that holds the partition, and the other
    one."""
    first, second = tmp_path / "first", tmp_path / "second"
    config = tmp_path / "node.properties"
    config.write_text(f"listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs={first},{second}\n")
    node = RunningBroker("--config", str(config), "--no-console").wait_until_ready()
    admin = AdminClient({"bootstrap.servers": node.address, "log_level": 0})
    admin.create_topics([NewTopic("orders", 1)])["orders"].result(PATIENCE_S)
    [now] = [path for path in (first, second) if (path / "orders-0").exists()]
    return node, now, second if now == first else first


@pytest.mark.slow
def test_a_move_to_another_log_directory_is_told_of_and_cancelled(tmp_path: Path) -> None:
    node, now, other = with_two_log_directories(tmp_path)
    producer = Producer({"bootstrap.servers": node.address})
    for _ in range(30):
        producer.produce("orders", bytes(100_000))
    assert producer.flush(PATIENCE_S) == 0

    def ask(to: Path, *flags: str) -> str:
        move: list[dict[str, object]] = [{"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": [str(to)]}]
        return kafka_reassign(node.address, tmp_path / "moves.json", move, *flags)

    assert "None of the specified partition moves are active." in ask(other, "--cancel", "--preserve-throttles")
    ask(other, "--execute", "--replica-alter-log-dirs-throttle", "1")
    told = ask(other, "--verify")
    assert "Reassignment of replica orders-0-1 is still in progress." in told
    assert "Clearing" not in told
    assert f"orders-0 on broker 1 is being moved to log dir {other} instead of {now}." in ask(now, "--verify")
    told = ask(other, "--cancel", "--preserve-throttles", "--timeout", "5000")
    assert f"Successfully started moving log directory to {now} for replica orders-0 with broker 1" in told
    told = ask(other, "--verify")
    assert f"Partition orders-0 on broker 1 is not being moved from log dir {now} to {other}." in told
    assert "Clearing broker-level throttles on broker 1" in told
    assert node.stop() == 0


def test_a_replica_goes_to_another_log_directory_of_its_broker(tmp_path: Path) -> None:
    node, _, other = with_two_log_directories(tmp_path)
    move: list[dict[str, object]] = [
        {"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": [str(other)]},
    ]
    file = tmp_path / "moves.json"
    flags = ("--execute", "--replica-alter-log-dirs-throttle", "1000000", "--timeout", "1000")
    told = kafka_reassign(node.address, file, move, *flags)
    assert "The replica-alter-dir throttle limit was set to 1000000 B/s" in told
    assert f"Successfully started moving log directory to {other} for replica orders-0 with broker 1" in told
    waiting: list[dict[str, object]] = [
        {"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": [str(tmp_path / "none")]},
    ]
    assert "Failed to alter dir for orders-0-1" in kafka_reassign(node.address, file, waiting, "--execute", code=1)
    assert node.stop() == 0
