"""moldau.testing: clients that read and join during faults, and faults of every kind one after the other."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer

from moldau.testing import Cluster
from tests.unit.testing.clients import make_consumer

QUICK = {
    "log_level": 0,
    "retry.backoff.ms": 10,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "socket.timeout.ms": 1000,
}


def quick_consumer(cluster: Cluster, group: str, **settings: object) -> Consumer:
    settings = {**QUICK, "fetch.error.backoff.ms": 10, "fetch.wait.max.ms": 100, **settings}
    return make_consumer(cluster, group, **settings)


def read(cluster: Cluster, consumer: Consumer, count: int) -> list[bytes]:
    seen: list[bytes] = []

    def has_all() -> bool:
        seen.extend(message.value() for message in consumer.consume(100, 0.1) if message.error() is None)
        return len(seen) >= count

    cluster.wait_for(has_all, timeout=60)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "when"),
    [("error", "before"), *((kind, when) for kind in ("drop", "delay", "disconnect") for when in ("before", "after"))],
)
def test_a_consumer_gets_over_trouble_with_its_fetches(kind: str, when: str) -> None:
    with Cluster() as cluster:
        cluster.produce("t", *map(str, range(100)))
        consumer = quick_consumer(cluster, "g")
        consumer.subscribe(["t"])
        if kind == "error":
            fault = cluster.faults.error("Fetch", "NOT_LEADER_OR_FOLLOWER", times=2)
        elif kind == "delay":
            fault = cluster.faults.delay("Fetch", ms=50, times=2, when=when)
        else:
            fault = getattr(cluster.faults, kind)("Fetch", times=2, when=when)
        assert read(cluster, consumer, 100) == [b"%d" % number for number in range(100)]
        cluster.produce("t", "more")
        assert read(cluster, consumer, 1) == [b"more"]
        cluster.wait_for(lambda: fault.times_happened == 2)
        consumer.close()


COORDINATOR_TROUBLE = [
    (api, code)
    for api in ("FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "OffsetFetch", "OffsetCommit")
    for code in ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE")
    # librdkafka passes these two to the application and does not retry; kafka-python does, see below
    if (api != "OffsetFetch" or code.startswith("COORDINATOR_LOAD"))
    and (api != "FindCoordinator" or code.endswith("AVAILABLE"))
]


@pytest.mark.slow
@pytest.mark.parametrize(("api", "code"), COORDINATOR_TROUBLE)
def test_a_member_gets_over_trouble_with_its_coordinator(api: str, code: str) -> None:
    with Cluster() as cluster:
        cluster.produce("t", "1")
        fault = cluster.faults.error(api, code)
        consumer = quick_consumer(cluster, "g", **{"heartbeat.interval.ms": 50, "session.timeout.ms": 6000})
        consumer.subscribe(["t"])
        assert read(cluster, consumer, 1) == [b"1"]
        consumer.commit(asynchronous=True)
        cluster.wait_for(lambda: fault.times_happened == 1 or consumer.poll(0.01), timeout=30)
        assert fault.times_happened == 1
        consumer.close()


def test_kafka_python_looks_for_the_coordinator_anew() -> None:
    with Cluster() as cluster:
        cluster.produce("t", "1")
        fault = cluster.faults.error("OffsetFetch", "NOT_COORDINATOR")
        consumer = KafkaConsumer(
            "t",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            consumer_timeout_ms=30_000,
        )
        assert next(consumer).value == b"1"
        assert fault.times_happened == 1
        consumer.close(autocommit=False)


@pytest.mark.parametrize("code", ["NOT_LEADER_OR_FOLLOWER", "FETCH_SESSION_ID_NOT_FOUND", "KAFKA_STORAGE_ERROR"])
def test_kafka_python_gets_over_errors_within_a_fetch_session(code: str) -> None:
    with Cluster() as cluster:
        for topic in ("a", "b", "c"):
            cluster.produce(topic, "1")
        consumer = KafkaConsumer(
            "a",
            "b",
            "c",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            consumer_timeout_ms=30_000,
            retry_backoff_ms=10,
            fetch_max_wait_ms=50,
        )
        assert {next(consumer).topic for _ in range(3)} == {"a", "b", "c"}
        fault = cluster.faults.error("Fetch", code, times=3)
        cluster.produce("b", "2")
        assert next(consumer).value == b"2"
        cluster.wait_for(lambda: consumer.poll(10) or fault.is_over, timeout=30)
        consumer.close()


def test_a_fetch_by_topic_id_is_known_by_the_topics_name() -> None:
    with Cluster() as cluster:
        cluster.produce("mine", "1")
        cluster.produce("other", "1")
        fault = cluster.faults.error("Fetch", "UNKNOWN_SERVER_ERROR", topic="mine", times=None)
        other, mine = quick_consumer(cluster, "g1"), quick_consumer(cluster, "g2")
        other.subscribe(["other"])
        mine.subscribe(["mine"])
        assert read(cluster, other, 1) == [b"1"]
        assert fault.times_happened == 0
        cluster.wait_for(lambda: mine.poll(0.01) or fault.times_happened, timeout=30)
        assert fault.happened[0].topics == ("mine",)
        fault.cancel()
        assert read(cluster, mine, 1) == [b"1"]
        other.close()
        mine.close()


def test_nothing_is_lost_or_doubled_in_random_trouble() -> None:
    with Cluster() as cluster:
        cluster.create_topic("t", partitions=2)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, **QUICK})
        consumer = quick_consumer(cluster, "g", **{"heartbeat.interval.ms": 50, "session.timeout.ms": 6000})
        consumer.subscribe(["t"])
        with cluster.faults.random(seed=7, rate=0.15):
            for number in range(200):
                producer.produce("t", b"%d" % number, partition=number % 2)
                producer.poll(0)
                if number % 10 == 9:
                    assert producer.flush(60) == 0
            seen = read(cluster, consumer, 200)
        assert sorted(seen, key=int) == [b"%d" % number for number in range(200)]
        assert {happened.kind for happened in cluster.faults.log} == {"delay", "error", "disconnect"}
        consumer.close()


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
def test_a_full_disk_on_a_directory_and_over_a_restart(tmp_path: Path, is_clean: bool) -> None:
    with Cluster(data_dir=tmp_path) as cluster:
        cluster.produce("t", "before")
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "retries": 0, "linger.ms": 0, **QUICK})
        with cluster.faults.disk_full() as fault:
            failed: list[bool] = []
            producer.produce("t", b"lost", on_delivery=lambda error, _: failed.append(error is not None))
            assert producer.flush(30) == 0
            assert failed == [True]
        cluster.restart(clean=is_clean)
        cluster.produce("t", "after")
        assert [record.value for record in cluster.records("t")] == [b"before", b"after"]
        assert fault.happened


def test_a_clean_stop_finds_room_on_a_full_disk(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path) as cluster:
        cluster.produce("t", "1")
        cluster.faults.disk_full()
    with Cluster(data_dir=tmp_path) as cluster:
        assert [record.value for record in cluster.records("t")] == [b"1"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc, which only Linux has")
def test_a_hundred_troubled_lives_leak_nothing() -> None:
    def live() -> None:
        with Cluster() as cluster:
            cluster.faults.disconnect("Produce")
            cluster.produce("t", "1")
            cluster.restart(clean=False)
            cluster.advance(hours=1)
            cluster.pause()
            cluster.kill()

    live()
    gc.collect()
    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(100):
        live()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert threading.active_count() == threads
