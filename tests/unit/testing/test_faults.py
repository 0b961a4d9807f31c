"""moldau.testing: faults, seen by a real client."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from moldau.errors import StorageFullError
from moldau.testing import Cluster
from tests.unit.testing.clients import make_producer


def hasty_producer(cluster: Cluster, **settings: object) -> Producer:
    return make_producer(cluster, **{"socket.timeout.ms": 1000, "request.timeout.ms": 500, **settings})


def write(producer: Producer, topic: str, *values: bytes) -> list[str | None]:
    """The error name of each record, in the order of delivery."""
    errors: list[str | None] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error and error.name()))
    assert producer.flush(30) == 0
    return errors


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    return [record.value for record in cluster.records(topic)]


@pytest.mark.slow
def test_a_dropped_produce_is_tried_again_and_written_once(cluster: Cluster) -> None:
    topic = cluster.topic()
    fault = cluster.faults.drop("Produce", times=2)
    assert write(hasty_producer(cluster), topic, b"a") == [None]
    assert values(cluster, topic) == [b"a"]
    assert fault.times_happened == 2
    assert fault.is_over
    assert cluster.faults.count("Produce", "drop") == 2
    assert cluster.faults.count("*", "drop") == 2


@pytest.mark.slow
def test_a_lost_answer_makes_a_plain_producer_write_twice_and_an_idempotent_one_once(cluster: Cluster) -> None:
    for kind in ("drop", "disconnect"):
        for is_idempotent, written in ((False, [b"a", b"a"]), (True, [b"a"])):
            topic = cluster.topic()
            fault = getattr(cluster.faults, kind)("Produce", when="after", topic=topic)
            producer = hasty_producer(cluster, **{"enable.idempotence": is_idempotent})
            assert write(producer, topic, b"a") == [None]
            assert values(cluster, topic) == written
            assert fault.times_happened == 1


def test_a_disconnect_before_the_work_writes_once(cluster: Cluster) -> None:
    topic = cluster.topic()
    with cluster.faults.disconnect("Produce", times=3) as fault:
        assert write(hasty_producer(cluster), topic, b"a") == [None]
    assert values(cluster, topic) == [b"a"]
    assert [happened.detail for happened in fault.happened] == ["before"] * 3


def test_an_error_is_what_the_client_sees(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.faults.error("Produce", "MESSAGE_TOO_LARGE")
    assert write(hasty_producer(cluster), topic, b"a") == ["MSG_SIZE_TOO_LARGE"]
    assert values(cluster, topic) == []


def test_a_delay_before_the_work_lets_others_pass(cluster: Cluster) -> None:
    topic = cluster.topic()
    slow, quick = (hasty_producer(cluster, **{"request.timeout.ms": 60_000, "client.id": name}) for name in "sq")
    cluster.faults.delay("Produce", ms=3_600_000, client_id="s")
    slow.produce(topic, b"slow")
    cluster.wait_for(lambda: cluster.faults.count("Produce", "delay") == 1)
    assert write(quick, topic, b"quick") == [None]
    assert values(cluster, topic) == [b"quick"]
    cluster.advance(hours=1)
    assert slow.flush(30) == 0
    assert values(cluster, topic) == [b"quick", b"slow"]
    assert cluster.faults.log[0].detail == "3600000 ms before"


def test_a_delay_after_the_work_holds_the_answer_only(cluster: Cluster) -> None:
    topic = cluster.topic()
    producer = hasty_producer(cluster, **{"request.timeout.ms": 60_000})
    cluster.faults.delay("Produce", ms=3_600_000, when="after")
    producer.produce(topic, b"a")
    cluster.wait_for(topic=topic, records=1)
    assert len(producer) == 1
    cluster.advance(hours=1)
    assert producer.flush(30) == 0
    assert values(cluster, topic) == [b"a"]


def test_commits_and_metadata_may_fail_for_a_while(cluster: Cluster) -> None:
    topic = cluster.topic()
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic, "log_level": 0})
    cluster.faults.error("Metadata", "LEADER_NOT_AVAILABLE", times=2)
    cluster.faults.error("OffsetCommit", "REBALANCE_IN_PROGRESS", group=topic)
    position = [TopicPartition(topic, 0, 7)]
    with pytest.raises(KafkaException, match="REBALANCE_IN_PROGRESS"):
        consumer.commit(offsets=position, asynchronous=False)
    consumer.commit(offsets=position, asynchronous=False)
    assert consumer.committed([TopicPartition(topic, 0)], timeout=10)[0].offset == 7
    consumer.close()
    assert cluster.faults.count("OffsetCommit") == 1


def test_selectors_choose_the_requests(cluster: Cluster) -> None:
    troubled, spared = cluster.topic("troubled"), cluster.topic("spared")
    fault = cluster.faults.error("Produce", "INVALID_RECORD", times=None, topic="troubled-*", client_id="mine-*")
    mine, other = (hasty_producer(cluster, **{"client.id": name}) for name in ("mine-1", "other"))
    assert write(mine, spared, b"a") == [None]
    assert write(other, troubled, b"a") == [None]
    assert fault.times_happened == 0
    assert write(mine, troubled, b"b") != [None]
    assert fault.happened[0].topics == (troubled,)
    assert fault.happened[0].client_id == "mine-1"


def test_a_script_goes_step_by_step(cluster: Cluster) -> None:
    topic = cluster.topic()
    script = cluster.faults.script()
    script.skip("Produce", times=2)
    script.error("Produce", "INVALID_RECORD")
    script.disconnect("Produce")
    producer = hasty_producer(cluster)
    results = [write(producer, topic, value)[0] is None for value in (b"1", b"2", b"3", b"4")]
    assert results == [True, True, False, True]
    assert script.is_finished
    assert [happened.kind for happened in cluster.faults.log] == ["error", "disconnect"]
    assert values(cluster, topic) == [b"1", b"2", b"4"]


def test_chance_is_repeatable(cluster: Cluster) -> None:
    stories = []
    for seed in (7, 7, 8):
        cluster.faults.forget()
        topic = cluster.topic()
        producer = hasty_producer(cluster, **{"enable.idempotence": True})
        with cluster.faults.random(seed=seed, rate=0.5, api="Produce", kinds=("error", "delay")):
            for number in range(30):
                assert write(producer, topic, b"%d" % number) == [None]
        assert values(cluster, topic) == [b"%d" % number for number in range(30)]
        stories.append([(happened.kind, happened.detail) for happened in cluster.faults.log])
    assert stories[0] == stories[1]
    assert stories[0] != stories[2]
    assert {kind for kind, _ in stories[0]} == {"error", "delay"}


def test_a_full_disk_refuses_until_it_has_room(cluster: Cluster) -> None:
    topic = cluster.topic()
    producer = hasty_producer(cluster, retries=0)
    with cluster.faults.disk_full() as fault:
        assert write(producer, topic, b"lost") != [None]
    assert write(producer, topic, b"kept") == [None]
    assert values(cluster, topic) == [b"kept"]
    assert fault.happened
    assert topic in fault.happened[0].detail


def test_what_cannot_be_is_refused_in_words(cluster: Cluster) -> None:
    faults = cluster.faults
    with pytest.raises(ValueError, match="did you mean Produce"):
        faults.drop("Prodcue")
    with pytest.raises(ValueError, match="no error 'OUT_OF_COFFEE'"):
        faults.error("Produce", "OUT_OF_COFFEE")
    with pytest.raises(ValueError, match="the least count is 1"):
        faults.drop("Produce", times=0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        faults.random(seed=1, rate=2)
    assert not faults.are_any


def test_a_fault_that_is_asked_for_before_the_start_is_there_at_the_start() -> None:
    cluster = Cluster()
    with cluster.faults.disk_full(), pytest.raises(StorageFullError):
        cluster.start()
    with cluster:
        assert write(hasty_producer(cluster), cluster.topic(), b"there is room again") == [None]
