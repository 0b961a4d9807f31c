"""moldau.testing: transactions of a real client, their faults, and time that passes over them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.transactions import (
    abort_transaction,
    describe_transaction,
    list_transactions,
    open_transaction_at,
)
from moldau.client.protocol.access import ClusterAccess
from moldau.errors import KafkaError as MoldauKafkaError
from moldau.testing import Cluster, NotReachedError
from moldau.transport.access import open_admin
from moldau.types import TopicPartition as MoldauPartition
from tests.unit.testing.clients import make_producer

NUMBERS = count()


def transactional_producer(cluster: Cluster, **settings: object) -> Producer:
    return make_producer(cluster, **{"transactional.id": f"id-{next(NUMBERS)}", "socket.timeout.ms": 1000, **settings})


def make_consumer(cluster: Cluster) -> Consumer:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": f"group-{next(NUMBERS)}", "log_level": 0}
    return Consumer(settings)


def admin_of(cluster: Cluster) -> ClusterAdmin:
    return open_admin(
        ClusterAccess(
            cluster.bootstrap_servers,
            client_id="test",
            connect_timeout_ms=5_000,
            request_timeout_ms=5_000,
            retry_timeout_ms=5_000,
        )
    )


def values(cluster: Cluster, topic: str, isolation: str) -> list[bytes | None]:
    return [record.value for record in cluster.records(topic, isolation=isolation)]


def test_records_are_what_a_reader_of_committed_records_gets_unless_asked_otherwise(cluster: Cluster) -> None:
    topic = cluster.topic()
    one, other = transactional_producer(cluster), transactional_producer(cluster)
    for producer in (one, other):
        producer.init_transactions(30)
        producer.begin_transaction()
    one.produce(topic, b"committed")
    other.produce(topic, b"aborted")
    for producer in (one, other):
        producer.flush()
    one.commit_transaction(30)
    other.abort_transaction(30)
    cluster.produce(topic, "plain")
    one.begin_transaction()
    one.produce(topic, b"open")
    one.flush()
    cluster.produce(topic, "behind")
    assert sorted(values(cluster, topic, "read_committed")) == [b"committed", b"plain"]
    assert [record.value for record in cluster.records(topic)] == values(cluster, topic, "read_committed")
    everything = [b"aborted", b"behind", b"committed", b"open", b"plain"]
    assert sorted(values(cluster, topic, "read_uncommitted")) == everything
    with pytest.raises(ValueError, match="the values are 'read_committed' and 'read_uncommitted'"):
        cluster.records(topic, isolation="committed")
    one.abort_transaction(30)
    assert values(cluster, topic, "read_committed")[-1] == b"behind"


def test_a_wait_for_records_counts_those_that_are_committed(cluster: Cluster) -> None:
    topic = cluster.topic()
    producer = transactional_producer(cluster)
    producer.init_transactions(30)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"a")
        producer.produce(topic, b"b")
        producer.flush()
        with pytest.raises(NotReachedError, match="has 0 of 1 records"):
            cluster.wait_for(topic=topic, records=1, timeout=0.02)
        end(30)
    cluster.wait_for(topic=topic, records=2)
    assert sum(cluster.record_counts(topic).values()) == 6  # two were aborted, and two are markers
    with pytest.raises(NotReachedError, match="has 2 of 3 records"):
        cluster.wait_for(topic=topic, records=3, timeout=0.02)


def test_a_wait_for_records_ends_with_the_transaction_that_writes_the_last_one(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=2)
    producer = transactional_producer(cluster)
    producer.init_transactions(30)

    def write() -> None:
        for end in (producer.abort_transaction, producer.commit_transaction, producer.commit_transaction):
            producer.begin_transaction()
            for number in range(10):
                producer.produce(topic, b"%d" % number, partition=number % 2)
            producer.flush()
            end(30)

    writer = threading.Thread(target=write)
    writer.start()
    cluster.wait_for(topic=topic, records=20, timeout=60)
    writer.join(60)
    assert len(values(cluster, topic, "read_committed")) == 20


def test_a_transaction_whose_time_is_over_is_aborted_when_advance_returns() -> None:
    with Cluster() as cluster:
        cluster.create_topic("t")
        producer = transactional_producer(cluster, **{"transaction.timeout.ms": 600_000})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("t", b"too late")
        producer.flush()
        cluster.produce("t", "behind")
        cluster.advance(minutes=8)
        assert values(cluster, "t", "read_committed") == []
        cluster.advance(minutes=3)
        assert values(cluster, "t", "read_committed") == [b"behind"]
        with pytest.raises(KafkaException) as refused:
            producer.commit_transaction(30)
        assert refused.value.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)


def test_a_transactional_id_that_nobody_uses_is_forgotten_when_advance_returns() -> None:
    with Cluster(settings={"transactional.id.expiration.ms": 86_400_000}) as cluster:
        cluster.create_topic("t")
        producer = transactional_producer(cluster, **{"transactional.id": "orders"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("t", b"a")
        producer.commit_transaction(30)
        admin = admin_of(cluster)
        cluster.advance(hours=23)
        assert [row.transactional_id for row in list_transactions(admin)] == ["orders"]
        cluster.advance(hours=3)
        assert list_transactions(admin) == []
        admin.client.close()


def copy_once(cluster: Cluster, producer: Producer, topic: str) -> None:
    """Every API of a client's transaction, once."""
    consumer = make_consumer(cluster)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"a")
    producer.flush()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 7)], consumer.consumer_group_metadata(), 30)
    producer.commit_transaction(30)
    consumer.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "api", ["FindCoordinator", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]
)
def test_a_transaction_is_whole_whatever_goes_wrong_once(cluster: Cluster, api: str) -> None:
    wrong: list[Callable[[], object]] = [
        lambda: cluster.faults.error(api, "COORDINATOR_LOAD_IN_PROGRESS"),
        lambda: cluster.faults.delay(api, ms=50),
        lambda: cluster.faults.disconnect(api),
        lambda: cluster.faults.disconnect(api, when="after"),
        lambda: cluster.faults.drop(api),
    ]
    for number, make in enumerate(wrong):
        topic = cluster.topic()
        make()
        copy_once(cluster, transactional_producer(cluster), topic)
        assert values(cluster, topic, "read_committed") == [b"a"]
        assert len(cluster.faults.log) == number + 1


def test_requests_of_administrators_meet_faults_too(cluster: Cluster) -> None:
    topic = cluster.topic()
    producer = transactional_producer(cluster, **{"transactional.id": "mine"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"a")
    producer.flush()
    admin = admin_of(cluster)
    place = MoldauPartition(topic, 0)
    asked: dict[str, Callable[[], object]] = {
        "DescribeProducers": lambda: open_transaction_at(admin, place, 0),
        "WriteTxnMarkers": lambda: abort_transaction(
            admin, place, producer_id=1_000_000, producer_epoch=0, coordinator_epoch=0
        ),
        "ListTransactions": lambda: list_transactions(admin),
        "DescribeTransactions": lambda: describe_transaction(admin, "mine"),
    }
    for api, ask in asked.items():
        fault = cluster.faults.error(api, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
        with pytest.raises(MoldauKafkaError) as refused:
            ask()
        assert refused.value.name == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
        assert fault.times_happened == 1
        ask()
    producer.abort_transaction(30)
    admin.client.close()
