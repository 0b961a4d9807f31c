"""A cluster of several brokers in this process: an acknowledgement outlives its broker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Message, Producer

from moldau.core.authorization.settings import STANDARD_AUTHORIZER
from moldau.core.config.broker_settings import parse_broker_settings
from moldau.errors import KafkaError, MoldauError, NotLeaderOrFollowerError
from moldau.shell.io.disk import OsDisk
from moldau.testing import Cluster, NotReachedError, inside
from moldau.testing.members import told_of_late
from tests.unit.testing.clients import make_consumer

PATIENCE_S = 60.0
ALL = {1, 2, 3}
ELECTION_TIMEOUT = "controller.quorum.election.timeout.ms"
IMPATIENT = {"broker.session.timeout.ms": 2_000, "broker.heartbeat.interval.ms": 500, "replica.lag.time.max.ms": 1_000}
"""A broker that is frozen or cut off is soon fenced."""


class Written:
    """A producer's acknowledgements, by value."""

    def __init__(self, cluster: Cluster, **settings: object) -> None:
        self.errors: dict[bytes, str | None] = {}
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, **settings})

    def write(self, topic: str, *values: bytes) -> None:
        for value in values:
            self._producer.produce(topic, value, on_delivery=self._note)
            self._producer.poll(0)

    def _note(self, error: object, message: object) -> None:
        name = None if error is None else error.name()  # type: ignore[attr-defined]
        self.errors[message.value()] = name  # type: ignore[attr-defined]

    def flush(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    return [record.value for record in cluster.records(topic)]


def numbered(start: int, end: int) -> list[bytes]:
    return [f"{number:04}".encode() for number in range(start, end)]


def follower_of(cluster: Cluster, topic: str) -> int:
    """A replica that leads neither the topic nor the quorum."""
    return min(ALL - {cluster.leader(topic), cluster.controller})


def test_a_topic_has_a_replica_on_each_broker_and_what_is_written_is_on_all() -> None:
    with Cluster(brokers=3) as cluster:
        assert len(cluster.bootstrap_servers.split(",")) == 3
        topic = cluster.topic(partitions=6)
        cluster.wait_for(topic=topic, isr=ALL)
        assert {cluster.leader(topic, index) for index in range(6)} == ALL
        written = Written(cluster)
        written.write(topic, *numbered(0, 100))
        written.flush()
        assert set(written.errors.values()) == {None}
        assert sorted(values(cluster, topic)) == numbered(0, 100)  # type: ignore[type-var]


@pytest.mark.slow
def test_an_idempotent_producer_does_not_notice_that_its_leader_is_killed() -> None:
    with Cluster(brokers=3) as cluster:
        topic = cluster.topic()
        written = Written(cluster, **{"enable.idempotence": True})
        written.write(topic, *numbered(0, 50))
        cluster.wait_for(topic=topic, records=1)
        killed = cluster.leader(topic)
        cluster.kill(killed)
        written.write(topic, *numbered(50, 100))
        written.flush()
        assert cluster.leader(topic) != killed
        cluster.restart(killed)
        cluster.wait_for(topic=topic, isr=ALL, timeout=PATIENCE_S)
        assert values(cluster, topic) == numbered(0, 100)


def test_too_few_replicas_in_sync_refuse_and_are_enough_again() -> None:
    with Cluster(brokers=3, settings=IMPATIENT) as cluster:
        cluster.create_topic("strict", config={"min.insync.replicas": 3})
        cluster.wait_for(topic="strict", isr=3)
        lagging = follower_of(cluster, "strict")
        cluster.pause(lagging)
        cluster.wait_for(topic="strict", isr=ALL - {lagging}, timeout=PATIENCE_S)
        refused = Written(cluster, retries=0)
        refused.write("strict", b"refused")
        refused.flush()
        assert refused.errors == {b"refused": "NOT_ENOUGH_REPLICAS"}
        cluster.resume(lagging)
        cluster.wait_for(topic="strict", isr=3, timeout=PATIENCE_S)
        refused.write("strict", b"taken")
        refused.flush()
        assert refused.errors[b"taken"] is None
        assert values(cluster, "strict") == [b"taken"]


def test_a_broker_that_is_cut_off_leaves_the_replicas_in_sync_and_catches_up() -> None:
    with Cluster(brokers=3, settings=IMPATIENT) as cluster:
        topic = cluster.topic()
        cluster.wait_for(topic=topic, isr=3)
        alone = follower_of(cluster, topic)
        cluster.partition([alone])
        cluster.wait_for(lambda: alone not in cluster.isr(topic), timeout=PATIENCE_S)
        cluster.produce(topic, "written meanwhile")
        cluster.heal()
        cluster.wait_for(topic=topic, isr=3, timeout=PATIENCE_S)
        assert values(cluster, topic) == [b"written meanwhile"]


def test_a_leader_that_is_cut_off_acknowledges_nothing_that_is_lost() -> None:
    with Cluster(brokers=3, settings=IMPATIENT) as cluster:
        topic = cluster.topic()
        cluster.wait_for(topic=topic, isr=3)
        cut = cluster.leader(topic)
        written = Written(cluster, **{"enable.idempotence": True})
        written.write(topic, *numbered(0, 10))
        written.flush()
        cluster.partition([cut])
        written.write(topic, *numbered(10, 20))
        cluster.wait_for(lambda: cluster.leader(topic) != cut, timeout=PATIENCE_S)
        cluster.heal()
        written.flush()
        assert set(written.errors.values()) == {None}
        cluster.wait_for(topic=topic, isr=3, timeout=PATIENCE_S)
        assert values(cluster, topic) == numbered(0, 20)


def test_a_slow_broker_slows_what_waits_for_it_and_nothing_else() -> None:
    with Cluster(brokers=3, settings={"min.insync.replicas": 3}) as cluster:
        topic = cluster.topic()
        cluster.wait_for(topic=topic, isr=3)
        slow = follower_of(cluster, topic)
        cluster.slow(slow, ms=20)
        cluster.produce(topic, *(str(number) for number in range(10)))
        cluster.heal()
        assert len(values(cluster, topic)) == 10
        with pytest.raises(ValueError, match="the least delay"):
            cluster.slow(slow, ms=-1)


def consume(cluster: Cluster, topic: str, count: int, stop: threading.Event) -> Callable[[], list[bytes]]:
    """Starts a member of a group that commits after each record, and retries a failed commit; the result ends it. A
    value may come twice: librdkafka may be out of its group before it finds the next coordinator."""
    seen: list[bytes] = []
    # if a response is lost with a broker, it asks again only then: by default after five minutes
    settings = {"topic.metadata.refresh.interval.ms": 1_000, "session.timeout.ms": 6_000}
    consumer = make_consumer(cluster, "readers", **settings)
    consumer.subscribe([topic])

    def run() -> None:
        uncommitted: Message | None = None
        while (len(set(seen)) < count or uncommitted is not None) and not stop.is_set():
            message = consumer.poll(0.1)
            if message is not None and not message.error():
                seen.append(message.value())
                uncommitted = message
            if uncommitted is not None:
                with suppress(KafkaException):
                    consumer.commit(uncommitted, asynchronous=False)
                    uncommitted = None
        consumer.close()

    thread = threading.Thread(target=run)
    thread.start()

    def end() -> list[bytes]:
        thread.join(PATIENCE_S)
        stop.set()
        thread.join(PATIENCE_S)
        return seen

    return end


@pytest.mark.slow
def test_a_group_reads_on_through_a_rolling_restart() -> None:
    stop = threading.Event()
    with Cluster(brokers=3) as cluster:
        topic = cluster.topic()
        end = consume(cluster, topic, 40, stop)
        try:
            cluster.wait_for(group="readers", members=1, timeout=PATIENCE_S)
            written = Written(cluster, **{"enable.idempotence": True})
            for number, broker in enumerate(sorted(ALL)):
                written.write(topic, *numbered(10 * number, 10 * number + 10))
                cluster.restart(broker)
                for each in (topic, "__consumer_offsets"):
                    cluster.wait_for(topic=each, isr=3, timeout=PATIENCE_S)
            written.write(topic, *numbered(30, 40))
            written.flush()
            assert set(written.errors.values()) == {None}
        finally:
            seen = end()
        assert sorted(set(seen)) == numbered(0, 40)
        cluster.wait_for(group="readers", lag=0)


def test_old_records_go_on_all_brokers_when_time_passes() -> None:
    with Cluster(brokers=3, settings={"log.roll.ms": 1_000}) as cluster:
        topic = cluster.topic(config={"retention.ms": 60_000})
        cluster.produce(topic, "old")
        before_ms = cluster.now_ms()
        cluster.advance(hours=2)
        assert cluster.now_ms() - before_ms >= 7_200_000
        cluster.produce(topic, "new")
        assert values(cluster, topic) == [b"new"]
        assert cluster.isr(topic) == ALL


def test_directories_are_opened_again_by_as_many_brokers(tmp_path: Path) -> None:
    with Cluster(brokers=3, data_dir=tmp_path) as cluster:
        topic = cluster.topic()
        cluster.produce(topic, "kept")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["node-1", "node-2", "node-3"]
    with Cluster(brokers=3, data_dir=tmp_path) as cluster:
        assert values(cluster, topic) == [b"kept"]
    with pytest.raises(MoldauError, match="nothing is there of 4"):
        Cluster(brokers=4, data_dir=tmp_path).start()


def test_only_the_leader_tells_what_a_partition_holds() -> None:
    """The contacted broker may have newer or older metadata than the one that chose it."""
    with Cluster(brokers=3) as cluster:
        topic = cluster.topic()
        cluster.produce(topic, "kept")
        follower = cluster._members[min(ALL - {cluster.leader(topic)})]
        for question in (
            partial(inside.partition_size, topic=topic, index=0),
            partial(inside.read_slice, topic=topic, index=0, offset=0, end=1),
            partial(inside.aborted_ranges, topic=topic, index=0, start=0, end=1),
        ):
            with pytest.raises(NotLeaderOrFollowerError):
                follower.ask(question)


def test_a_broker_that_cannot_start_fails_the_start_of_all_at_once(tmp_path: Path) -> None:
    Cluster(brokers=2, data_dir=tmp_path).start().stop()
    in_use = OsDisk(str(tmp_path / "node-2")).lock(".lock")
    try:
        with pytest.raises(MoldauError, match="node-2 is in use"):
            Cluster(brokers=2, data_dir=tmp_path).start()  # broker 1 would wait for the other half of the quorum
    finally:
        in_use()
    Cluster(brokers=2, data_dir=tmp_path).start().stop()


@pytest.mark.slow
def test_a_broker_that_has_hardly_begun_to_start_is_killed_at_once() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.kill()
        member = cluster._members[1]
        for _ in range(20):
            member.boot()  # alone it would wait for the other half of the quorum
            member.end(is_clean=False)
        cluster.restart()


def broker_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "moldau-cluster"}


@pytest.mark.slow
@pytest.mark.parametrize("is_on_disk", [False, True], ids=["memory", "disk"])
def test_a_restart_without_a_majority_says_so_and_leaves_no_broker_behind(tmp_path: Path, is_on_disk: bool) -> None:
    before = broker_threads()
    with Cluster(brokers=3, settings=IMPATIENT, data_dir=tmp_path if is_on_disk else None) as cluster:
        topic = cluster.topic()
        cluster.produce(topic, "kept")
        cluster.kill()
        told = r"broker 1 did not serve within 0\.2 s: a majority of the brokers must run and reach each other"
        with pytest.raises(MoldauError, match=told):
            cluster.restart(1, timeout=0.2)
        assert broker_threads() == before
        cluster.partition([1], [2], [3])
        with pytest.raises(MoldauError, match=r"brokers 1, 2, 3 did not serve within 0\.2 s"):
            cluster.restart(timeout=0.2)
        assert broker_threads() == before
        cluster.heal()
        cluster.restart()
        assert values(cluster, topic) == [b"kept"]


@pytest.mark.slow
def test_a_broker_that_restarts_while_it_is_cut_off_is_killed_and_the_others_go_on() -> None:
    with Cluster(brokers=3, settings=IMPATIENT) as cluster:
        topic = cluster.topic()
        cluster.wait_for(topic=topic, isr=ALL)
        cluster.partition([1])
        with pytest.raises(MoldauError, match="broker 1 did not serve"):
            cluster.restart(1, timeout=0.2)
        assert [member.is_running for member in cluster._members] == [False, True, True]
        cluster.produce(topic, "of the majority")
        cluster.heal()
        cluster.restart(1)
        cluster.wait_for(topic=topic, isr=ALL, timeout=PATIENCE_S)
        assert values(cluster, topic) == [b"of the majority"]


def test_one_broker_that_is_late_hears_nothing_of_a_majority() -> None:
    assert told_of_late([1], 1, 60.0, parse_broker_settings({})) == "broker 1 did not serve within 60 s"


def test_brokers_that_let_each_other_not_in_are_told_of_super_users() -> None:
    nodes = {"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"}
    settings = parse_broker_settings({**nodes, "authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:x"})
    assert told_of_late([1, 2], 3, 60.0, settings) == (
        "brokers 1, 2 did not serve within 60 s: super.users does not name the brokers; add User:ANONYMOUS"
    )


def test_brokers_that_need_each_other_are_revived_together() -> None:
    with Cluster(brokers=3, settings=IMPATIENT) as cluster:
        topic = cluster.topic()
        cluster.produce(topic, "kept")
        cluster.kill(1)
        cluster.kill(2)
        cluster.kill(3)
        cluster.revive()
        assert cluster.is_running
        assert values(cluster, topic) == [b"kept"]


def test_a_fault_troubles_clients_and_not_the_brokers_among_themselves() -> None:
    with Cluster(brokers=3) as cluster:
        topic = cluster.topic()
        cluster.wait_for(topic=topic, isr=3)
        with cluster.faults.drop("Fetch"):
            cluster.produce(topic, "replicated all the same")  # waits for the followers, which fetch
        assert cluster.faults.count("Fetch") == 0


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Cluster(brokers=0)
    with pytest.raises(ValueError, match=r"node\.id cannot be set"):
        Cluster(brokers=3, settings={"node.id": 7})
    with Cluster(brokers=2) as cluster:
        for act in (cluster.kill, cluster.pause, cluster.restart):
            with pytest.raises(MoldauError, match="there is no broker 3; the brokers are 1, 2"):
                act(3)
        with pytest.raises(MoldauError, match="there is no broker 9"):
            cluster.partition([1], [9])
        with pytest.raises(MoldauError, match="broker 1 is named on two sides"):
            cluster.partition([1], [1, 2])
        topic = cluster.topic()
        with pytest.raises(NotReachedError, match="in-sync replicas of"):
            cluster.wait_for(topic=topic, isr=3, timeout=0)
        with pytest.raises(KafkaError, match="there is no partition"):
            cluster.leader(topic, 5)


@pytest.mark.parametrize(("settings", "times"), [({}, [20, 100, 100]), ({ELECTION_TIMEOUT: 100}, [100] * 3)])
def test_one_broker_stands_before_the_others_at_the_first_election(settings: dict[str, int], times: list[int]) -> None:
    with Cluster(brokers=3, settings=settings) as cluster:
        members = cluster._members
        assert [member.settings.controller_quorum_election_timeout_ms for member in members] == times
