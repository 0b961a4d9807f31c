"""Records that a handler fails for: stop, retry topic, dead letters, and their order of writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from moldau.idempotent import BrokenTransactionError, PoisonRecordError, Record, RetryTopic, by_header
from moldau.testing import Cluster
from tests.idempotent.services import CLIENTS, GROUP, Database, Service

pytestmark = pytest.mark.slow

Start = Callable[..., Service]
TOPIC, RETRY, DEAD = "orders", "orders.retry", "orders.dead-letters"
each_client = pytest.mark.parametrize("client", CLIENTS)
each_kind_of_offsets = pytest.mark.parametrize("offsets", ["group", "database"])


def retry_of(cluster: Cluster, client: str, **settings: Any) -> Any:
    """The retry topic with a producer of the client; aiokafka's is started by the service."""
    for topic in (RETRY, DEAD):
        cluster.create_topic(topic)
    settings = {"delay_s": 0.0, "attempts": 2, **settings}
    if client == "aiokafka":
        return lambda producer: RetryTopic(producer, RETRY, DEAD, **settings)
    if client == "kafka-python":
        from kafka import KafkaProducer

        return RetryTopic(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers), RETRY, DEAD, **settings)
    return RetryTopic(Producer({"bootstrap.servers": cluster.bootstrap_servers}), RETRY, DEAD, **settings)


def fail_for(value: bytes, times: int = 1_000_000) -> Callable[[Any, Record], None]:
    left = [times]

    def before(connection: Any, record: Record) -> None:
        if record.value == value and left[0]:
            left[0] -= 1
            raise ValueError("this one is poison")

    return before


def write(cluster: Cluster, *values: str) -> None:
    for value in values:
        cluster.produce(TOPIC, value, headers=[("id", value.encode())])


def headers_in(cluster: Cluster, topic: str) -> list[dict[str, Any]]:
    return [dict(record.headers) for record in cluster.records(topic)]


@each_client
@each_kind_of_offsets
def test_poison_stops_without_a_retry_topic(
    cluster: Cluster, database: Database, start: Start, client: str, offsets: str
) -> None:
    cluster.create_topic(TOPIC)
    service = start(client, TOPIC, offsets=offsets)
    service.before = fail_for(b"bad", times=2)  # once in the batch, once alone
    write(cluster, "a", "bad", "b")
    with pytest.raises(PoisonRecordError, match="offset 1: ValueError: this one is poison"):
        service.poll_until(lambda: False)
    assert database.effects() == ["a"]
    # the same consumer continues at the record, and loses none
    service.poll_until(lambda: len(database.effects()) == 3)
    assert database.effects() == ["a", "bad", "b"]


@each_client
@each_kind_of_offsets
def test_poison_goes_to_the_retry_topic_and_then_to_the_dead_letters(
    cluster: Cluster, database: Database, start: Start, client: str, offsets: str
) -> None:
    cluster.create_topic(TOPIC)
    service = start(client, TOPIC, offsets=offsets, retry=retry_of(cluster, client))
    service.before = fail_for(b"bad")
    write(cluster, "a", "bad", "b")
    service.poll_until(lambda: len(headers_in(cluster, DEAD)) == 1 and cluster.lag(GROUP) == 0)
    assert database.effects() == ["a", "b"]
    first, second = headers_in(cluster, RETRY)
    assert (first["moldau.attempt"], second["moldau.attempt"]) == (b"1", b"2")
    (dead,) = headers_in(cluster, DEAD)
    told = {name: value for name, value in dead.items() if name.startswith("moldau.")}
    assert told == {
        "moldau.reason": b"ValueError: this one is poison",
        "moldau.topic": b"orders",
        "moldau.partition": b"0",
        "moldau.offset": b"1",
        "moldau.consumer": GROUP.encode(),
    }
    assert dead["id"] == b"bad"


@each_client
def test_a_copy_that_was_written_twice_is_handled_once(
    cluster: Cluster, database: Database, start: Start, client: str
) -> None:
    cluster.create_topic(TOPIC)
    service = start(client, TOPIC, message_id=by_header("id"), retry=retry_of(cluster, client))
    service.before = fail_for(b"bad", times=1)
    write(cluster, "bad")
    service.poll_until(lambda: database.effects() == ["bad"])
    (copy,) = cluster.records(RETRY)
    cluster.produce(RETRY, copy.value, headers=copy.headers)  # as after a stop between the copy and the commit
    service.poll_until(lambda: cluster.lag(GROUP) == 0)
    assert database.effects() == ["bad"]


def test_a_copy_waits_for_its_time_and_holds_back_no_other_topic(
    cluster: Cluster, database: Database, start: Start
) -> None:
    cluster.create_topic(TOPIC)
    service = start("confluent-kafka", TOPIC, retry=retry_of(cluster, "confluent-kafka", delay_s=1.5))
    service.before = fail_for(b"bad", times=2)
    write(cluster, "bad", "a")
    service.poll_until(lambda: database.effects() == ["a"])
    write(cluster, "b")
    service.poll_until(lambda: len(database.effects()) == 3)
    assert database.effects() == ["a", "b", "bad"]


def test_a_record_without_an_id_is_a_dead_letter(cluster: Cluster, database: Database, start: Start) -> None:
    cluster.create_topic(TOPIC)
    retry = retry_of(cluster, "confluent-kafka")
    service = start("confluent-kafka", TOPIC, message_id=by_header("id"), retry=retry)
    cluster.produce(TOPIC, "nameless")
    write(cluster, "a")
    service.poll_until(lambda: len(headers_in(cluster, DEAD)) == 1 and cluster.lag(GROUP) == 0)
    assert database.effects() == ["a"]
    assert headers_in(cluster, DEAD)[0]["moldau.reason"] == b"MissingIdError: the record has no message id"
    assert headers_in(cluster, RETRY) == []


def test_a_dead_record_is_not_handled_when_it_comes_again(cluster: Cluster, database: Database, start: Start) -> None:
    cluster.create_topic(TOPIC)
    retry = retry_of(cluster, "confluent-kafka", attempts=0)
    service = start("confluent-kafka", TOPIC, message_id=by_header("id"), retry=retry)
    service.before = fail_for(b"bad", times=2)
    write(cluster, "bad", "bad", "a")
    service.poll_until(lambda: database.effects() == ["a"] and cluster.lag(GROUP) == 0)
    assert len(headers_in(cluster, DEAD)) == 2  # one for each record: written at least once, handled never


def test_a_handler_that_ends_the_transaction_is_told(cluster: Cluster, database: Database, start: Start) -> None:
    cluster.create_topic(TOPIC)
    service = start("confluent-kafka", TOPIC)
    service.before = lambda connection, record: connection.execute("ROLLBACK")
    write(cluster, "a")
    with pytest.raises(BrokenTransactionError, match="leave commit and rollback to the library"):
        service.poll_until(lambda: False)
