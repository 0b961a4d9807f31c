"""moldau.testing.history: recorded clients with a real broker, and their file."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from moldau.testing import Cluster, history
from moldau.testing.history import Event, HistoryFile, events, judge

PATIENCE_S = 30


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.jsonl"


def settings(cluster: Cluster, **more: object) -> dict[str, object]:
    return {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0} | {
        name.replace("_", "."): value for name, value in more.items()
    }


def produce(producer: Producer, topic: str, *values: str) -> None:
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    assert producer.flush(PATIENCE_S) == 0


def consume(consumer: Consumer, count: int) -> None:
    got = 0
    while got < count:
        messages = consumer.consume(count - got, timeout=PATIENCE_S)
        assert messages, f"{got} of {count} records came"
        got += sum(message.error() is None for message in messages)


def kinds(path: Path) -> list[str]:
    return [str(kind) for kind in judge(HistoryFile(path)).counts]


def recorded(path: Path, kind: type[Event]) -> list[Event]:
    return [event for event in HistoryFile(path) if isinstance(event, kind)]


def test_a_broker_that_keeps_its_word_is_not_blamed(cluster: Cluster, path: Path) -> None:
    topic = cluster.topic()
    group = {"group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with history.record(path) as recorder:
        producer = recorder.producer(settings(cluster, enable_idempotence=True))
        produce(producer, topic, "a", "b", "c")
        for count in (2, 1):
            consumer = recorder.consumer(settings(cluster) | group)
            consumer.subscribe([topic])
            consume(consumer, count)
            consumer.commit(asynchronous=False)
            consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
            consumer.close()
        assert len(list(recorder.read_to_end(settings(cluster), [topic]))) == 3
    verdict = judge(HistoryFile(path))
    assert not verdict.findings, str(verdict)
    assert verdict.judged["records acknowledged"] == 3
    assert verdict.judged["reads of records"] == 6
    assert verdict.judged["commits of offsets"] == 2
    assert [event.positions for event in recorded(path, events.Committed)] == [{f"{topic}-0": 2}, {f"{topic}-0": 3}]


def test_a_record_whose_answer_is_lost_has_an_unknown_outcome(cluster: Cluster, path: Path) -> None:
    topic = cluster.topic()
    with history.record(path) as recorder:
        cluster.faults.drop("Produce", when="after", topic=topic)
        producer = recorder.producer(settings(cluster, message_timeout_ms=200, socket_timeout_ms=200))
        producer.produce(topic, b"a", partition=0)
        producer.flush(PATIENCE_S)
        assert [message.value() for message in recorder.read_to_end(settings(cluster), [topic])] == [b"a"]
    assert len(recorded(path, events.Unknown)) == 1
    assert kinds(path) == []


def test_records_that_are_gone_are_missed(cluster: Cluster, path: Path) -> None:
    topic = cluster.topic()
    with history.record(path) as recorder:
        produce(recorder.producer(settings(cluster, enable_idempotence=True)), topic, "a", "b")
        cluster.delete_topic(topic)
        cluster.create_topic(topic)  # the recorder is not informed
        assert list(recorder.read_to_end(settings(cluster), [topic])) == []
    verdict = judge(HistoryFile(path))
    assert verdict.counts == {"lost write": 2}
    assert "a was acknowledged" in str(verdict)


def test_a_topic_that_is_noted_as_created_anew_is_another_one(cluster: Cluster, path: Path) -> None:
    topic = cluster.topic()
    with history.record(path) as recorder:
        produce(recorder.producer(settings(cluster, enable_idempotence=True)), topic, "a", "b")
        cluster.delete_topic(topic)
        cluster.create_topic(topic)
        recorder.topic_created(topic)
        produce(recorder.producer(settings(cluster, enable_idempotence=True)), topic, "c")
        assert len(list(recorder.read_to_end(settings(cluster), [topic]))) == 1
    assert kinds(path) == []


def test_a_producer_without_idempotence_may_write_twice(cluster: Cluster, path: Path) -> None:
    topic = cluster.topic()
    with history.record(path) as recorder:
        cluster.faults.disconnect("Produce", when="after", topic=topic)
        produce(recorder.producer(settings(cluster, enable_idempotence=False)), topic, "a")
        assert len(list(recorder.read_to_end(settings(cluster), [topic]))) == 2
    assert kinds(path) == []


@pytest.mark.slow
def test_transactions_are_recorded_with_their_offsets(cluster: Cluster, path: Path) -> None:
    source, target = cluster.topic(), cluster.topic()
    cluster.produce(source, "a", "b", "c")
    with history.record(path) as recorder:
        consumer = recorder.consumer(settings(cluster) | {"group.id": source, "enable.auto.commit": False}, "copier")
        producer = recorder.producer(settings(cluster, transactional_id=source), "copier")
        producer.init_transactions(PATIENCE_S)
        for position, is_committed in ((0, False), (0, True), (1, True), (2, True)):
            consumer.assign([TopicPartition(source, 0, position)])
            message = consumer.poll(PATIENCE_S)
            producer.begin_transaction()
            producer.produce(target, message.value(), partition=0)
            offsets = [TopicPartition(source, 0, message.offset() + 1)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE_S)
            if is_committed:
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.flush(PATIENCE_S)
                producer.abort_transaction(PATIENCE_S)
        found = consumer.committed([TopicPartition(source, 0)], PATIENCE_S)
        assert [one.offset for one in found] == [3]
        consumer.close()
        for _ in recorder.read_to_end(settings(cluster), [source, target]):
            pass
    verdict = judge(HistoryFile(path), copies=[history.Copy(source, target)])
    assert not verdict.findings, str(verdict)
    assert verdict.judged["transactions"] == 4
    assert verdict.judged["commits of offsets"] == 3


def test_a_reader_of_uncommitted_records_may_see_aborted_ones(cluster: Cluster, path: Path) -> None:
    topic = cluster.topic()
    with history.record(path) as recorder:
        producer = recorder.producer(settings(cluster, transactional_id=topic))
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        produce(producer, topic, "a")
        consumer = recorder.consumer(settings(cluster, isolation_level="read_uncommitted") | {"group.id": topic})
        consumer.assign([TopicPartition(topic, 0, 0)])
        consume(consumer, 1)
        consumer.close()
        producer.abort_transaction(PATIENCE_S)
        assert list(recorder.read_to_end(settings(cluster), [topic])) == []
    assert kinds(path) == []


def test_an_automatic_commit_is_recorded(cluster: Cluster, path: Path) -> None:
    topic = cluster.topic()
    cluster.produce(topic, "a", "b")
    with history.record(path) as recorder:
        group = {"group.id": topic, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 10}
        consumer = recorder.consumer(settings(cluster) | group)
        consumer.subscribe([topic])
        consume(consumer, 2)
        cluster.wait_for(lambda: consumer.poll(0.01) is None and recorded(path, events.Done))
        consumer.close()
    assert recorded(path, events.Commit)[-1].positions == {f"{topic}-0": 2}
    assert kinds(path) == []


def test_an_asynchronous_commit_that_is_answered_late_overtakes_none_behind_it(cluster: Cluster, path: Path) -> None:
    topic = cluster.topic()
    cluster.produce(topic, *(str(number) for number in range(10)))
    group = {"group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with history.record(path) as recorder:
        consumer = recorder.consumer(settings(cluster) | group)
        consumer.subscribe([topic])
        consume(consumer, 10)
        consumer.commit(offsets=[TopicPartition(topic, 0, 10)])  # a later poll serves its callback
        consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
        cluster.wait_for(lambda: consumer.poll(0.01) is None and len(recorded(path, events.Done)) == 2)
        assert consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)[0].offset == 5
        consumer.close()
    assert [event.positions for event in recorded(path, events.Commit)] == [{f"{topic}-0": 10}, {f"{topic}-0": 5}]
    assert kinds(path) == []


def test_a_commit_that_librdkafka_leaves_out_is_not_held_against_the_cluster(cluster: Cluster, path: Path) -> None:
    """Without offsets it commits nothing below its last commit, and reports no error."""
    topic = cluster.topic(partitions=2)
    both = [TopicPartition(topic, partition, 0) for partition in range(2)]
    group = {"group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with history.record(path) as recorder:
        producer = recorder.producer(settings(cluster))
        produce(producer, topic, "a", "b")
        consumer = recorder.consumer(settings(cluster) | group)
        consumer.assign(both)
        consume(consumer, 2)
        consumer.commit(asynchronous=False)
        producer.produce(topic, "c", partition=1)
        assert producer.flush(PATIENCE_S) == 0
        consume(consumer, 1)
        consumer.seek(both[0])
        consume(consumer, 1)
        consumer.commit(asynchronous=False)
        assert [one.offset for one in consumer.committed(both, timeout=PATIENCE_S)] == [2, 1]
        consumer.close()
    assert recorded(path, events.Commit)[1].positions == {f"{topic}-0": 1, f"{topic}-1": 1}
    assert kinds(path) == []


def test_a_send_that_is_not_taken_has_failed(cluster: Cluster, path: Path) -> None:
    with history.record(path) as recorder:
        producer = recorder.producer(settings(cluster, message_max_bytes=1000))
        with pytest.raises(KafkaException):
            producer.produce("orders", b"a" * 2000)
    (failed,) = recorded(path, events.Failed)
    assert "too large" in failed.error


def test_the_end_of_a_log_that_does_not_come_is_told(cluster: Cluster, path: Path) -> None:
    topic = cluster.topic()
    with history.record(path) as recorder:
        producer = recorder.producer(settings(cluster, transactional_id=topic))
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        produce(producer, topic, "a")
        with pytest.raises(TimeoutError, match=topic):
            list(recorder.read_to_end(settings(cluster), [topic], timeout_s=0.3))
        producer.abort_transaction(PATIENCE_S)


def test_a_copy_of_a_topic_that_the_history_does_not_know_is_a_mistake() -> None:
    told = [events.Send(process="p", operation=1, topic="orders", record="a")]
    with pytest.raises(ValueError, match=r"no topic 'bills'; it has .'orders'."):
        judge(told, copies=[history.Copy("orders", "bills")])


def test_an_iterator_is_refused_as_a_history(path: Path) -> None:
    with pytest.raises(TypeError, match="HistoryFile"):
        judge(iter([]))


def test_a_finding_shows_what_was_done_and_the_part_of_a_poll_that_counts(path: Path) -> None:
    sends = [
        each
        for number in range(20)
        for each in (
            events.Send(process="p", operation=number, topic="orders", record=f"r{number}", partition=0),
            events.Sent(process="p", operation=number, partition=0, offset=number),
        )
    ]
    read = tuple((number, f"r{number}") for number in range(20) if number != 9)
    told: list[Event] = [
        *sends,
        events.Fault(process="operator", text="kill -9 of broker 1"),
        events.Assign(process="c", positions={"orders-0": 0}),
        events.Poll(process="c", records={"orders-0": read}),
    ]
    assert str(judge(told)).splitlines()[:5] == [
        "lost write: r9 was acknowledged at orders-0 offset 9; nobody read it, and c came past",
        "    line      19  0.000 s  p             send operation 9, topic orders, record r9, partition 0",
        "    line      20  0.000 s  p             sent operation 9, partition 0, offset 9",
        "    line      41  0.000 s  operator      kill -9 of broker 1",
        "    line      43  0.000 s  c             poll orders-0: ... 6 more, 6 r6, 7 r7, 8 r8, 10 r10, 11 r11, 12 r12, "
        "7 more ...",
    ]


def test_an_acknowledgement_without_an_offset_can_be_read_back(cluster: Cluster, path: Path) -> None:
    """A batch that was sent again, which the broker has, but too far back to know its offset."""
    topic = cluster.topic()
    with history.record(path) as recorder:
        producer = recorder.producer(settings(cluster, enable_idempotence=True))
        cluster.faults.error("Produce", "DUPLICATE_SEQUENCE_NUMBER", times=1)
        produce(producer, topic, "a")
    assert [event.offset for event in recorded(path, events.Sent)] == [events.NO_OFFSET]
    assert judge(HistoryFile(path)).judged["records acknowledged"] == 1
