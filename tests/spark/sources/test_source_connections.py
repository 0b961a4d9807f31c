"""Connections of the source's tasks: kept from one micro-batch to the next, but checked before use."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.errors import KafkaError
from moldau.spark.source import reading
from moldau.spark.source.client_pool import ClientPool
from moldau.testing import Cluster
from tests.spark.streams import Stream


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster
    reading.CLIENTS.close()


def access_of(cluster: Cluster, client_id: str = "a") -> ClusterAccess:
    return ClusterAccess(
        cluster.bootstrap_servers, client_id=client_id, request_timeout_ms=10_000, retry_timeout_ms=10_000
    )


def opened(cluster: Cluster) -> int:
    """Connections since the broker's start, as its metric connection-creation-total counts them."""
    return cluster.node.connections.accepted


def test_ten_micro_batches_open_no_connection(cluster: Cluster):
    topic = cluster.topic(partitions=2)
    stream = Stream(cluster, subscribe=topic, startingOffsets="earliest")
    for number in range(12):
        for partition in range(2):
            cluster.produce(topic, b"%d" % number, partition=partition)
        if number == 2:
            before = opened(cluster)
        assert stream.batch() == [b"%d" % number] * 2
    assert opened(cluster) == before


def test_ten_micro_batches_of_a_query_open_no_connection(spark, cluster: Cluster, tmp_path):
    """Spark reuses its workers, and so their connections. Two workers take the first tasks in any order."""
    topic = cluster.topic()
    frame = spark.readStream.format("moldau").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    frame = frame.option("subscribe", topic).option("startingOffsets", "earliest").load()
    cluster.produce(topic, b"first")
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        counts = []
        for number in range(14):
            cluster.produce(topic, b"%d" % number)
            query.processAllAvailable()
            counts.append(opened(cluster))
        assert query.lastProgress["batchId"] >= 10
    finally:
        query.stop()
    assert counts[-1] == counts[-11]


def test_a_connection_that_the_broker_closed_is_replaced_without_an_error(cluster: Cluster, caplog):
    topic = cluster.topic()
    stream = Stream(cluster, subscribe=topic, startingOffsets="earliest")
    cluster.produce(topic, b"a")
    assert stream.batch() == [b"a"]
    with reading.CLIENTS.borrow(_idle_access()) as client:
        idle = client.any_connection()
        assert not idle.has_ended()
    cluster.restart()
    assert idle.has_ended()
    cluster.produce(topic, b"b")
    before = opened(cluster)
    assert stream.batch() == [b"b"]
    assert opened(cluster) > before
    assert not caplog.records


def _idle_access() -> ClusterAccess:
    return reading.CLIENTS._idle[-1][0]


def test_a_client_that_met_an_error_does_not_come_back(cluster: Cluster):
    pool = ClientPool()
    with pytest.raises(KafkaError), pool.borrow(access_of(cluster)) as client:
        client.topic("never-made")
    with pool.borrow(access_of(cluster)) as other:
        assert other is not client


def test_two_at_a_time_never_share_a_client_and_only_an_equal_access_shares_one(cluster: Cluster):
    pool = ClientPool()
    with pool.borrow(access_of(cluster)) as first, pool.borrow(access_of(cluster)) as second:
        assert first is not second
    with pool.borrow(access_of(cluster)) as again, pool.borrow(access_of(cluster, "b")) as stranger:
        assert again in (first, second)
        assert stranger not in (first, second)
    pool.close()


def test_the_pool_is_bounded_and_closes_what_was_idle_for_longest(cluster: Cluster):
    pool = ClientPool(most_idle=2)
    connections = {}
    for name in ("a", "b", "c"):
        with pool.borrow(access_of(cluster, name)) as client:
            connections[name] = client.any_connection()
    assert [connection.is_open for connection in connections.values()] == [False, True, True]
    pool.close()
    assert not any(connection.is_open for connection in connections.values())


def test_a_forked_child_has_no_connection_of_its_parent(cluster: Cluster):
    pool = ClientPool()
    with pool.borrow(access_of(cluster)) as client:
        connection = client.any_connection()
    child = os.fork()
    if child == 0:
        with pool.borrow(access_of(cluster)) as mine:
            os._exit(0 if mine is not client and not connection.is_open else 1)
    assert os.waitpid(child, 0)[1] == 0
    with pool.borrow(access_of(cluster)) as again:
        assert again is client
        assert again.any_connection() is connection
        assert again.list_topics() == {}
    pool.close()


def test_a_topic_made_anew_between_two_batches_is_read_by_its_new_id(cluster: Cluster):
    """The tasks' client remembers the earlier topic."""
    cluster.create_topic("anew")
    stream = Stream(cluster, subscribe="anew", startingOffsets="earliest", failOnDataLoss="false")
    cluster.produce("anew", b"old")
    assert stream.batch() == [b"old"]
    cluster.delete_topic("anew")
    cluster.create_topic("anew")
    cluster.produce("anew", b"new")
    assert stream.batch() == [b"new"]
