"""The console's view of a real cluster, which continues after an outage of the broker."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from confluent_kafka import Producer

from moldau.client.admin.groups import commit
from moldau.client.admin.transactions import describe_open_transactions
from moldau.client.protocol.access import ClusterAccess
from moldau.products.console.cluster import Cluster as ConsoleCluster
from moldau.products.console.cluster import TopicFacts
from moldau.products.console.cluster_state import ClusterWatch, read_state
from moldau.products.console.sampler import NOTHING
from moldau.testing import Cluster
from moldau.transport.access import open_admin
from moldau.types import TopicPartition


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.create_topic("orders", partitions=2)
        cluster.produce("orders", *[b"x" * 100] * 5, partition=0)
        cluster.produce("orders", b"x", partition=1)
        yield cluster


@pytest.fixture
def page(broker: Cluster) -> Iterator[ConsoleCluster]:
    asked = ConsoleCluster(ClusterAccess(broker.bootstrap_servers))
    yield asked
    asked.close()


def orders(page: ConsoleCluster) -> TopicFacts:
    return page.with_offsets([topic for topic in page.overview().topics if topic.name == "orders"])[0]


def test_a_topic_has_its_offsets_and_its_size(broker: Cluster, page: ConsoleCluster) -> None:
    overview = page.overview()
    assert [each.address for each in overview.brokers] == [broker.bootstrap_servers]
    state = page.ask(lambda admin: read_state(admin, overview.topics))
    [row] = state.brokers
    assert (row.address, row.is_fenced, row.out_of_sync) == (broker.bootstrap_servers, False, 0)
    assert row.leads == row.replicas == sum(len(topic.partitions) for topic in overview.topics)
    assert (state.active_controller, state.moves, state.behind) == (row.broker_id, (), ())
    assert overview.cluster_id
    topic = orders(page)
    assert [(each.index, each.start, each.end) for each in topic.partitions] == [(0, 0, 5), (1, 0, 1)]
    assert topic.records == 6
    assert topic.is_healthy
    assert (topic.size_bytes or 0) > 500


def test_partitions_that_are_gone_are_left_out_of_the_offsets(page: ConsoleCluster) -> None:
    gone = TopicPartition("no-such-topic", 0)
    starts, ends = page._ends([gone, TopicPartition("orders", 1), TopicPartition("orders", 9)])
    assert (starts, ends) == ({TopicPartition("orders", 1): 0}, {TopicPartition("orders", 1): 1})


def test_settings_that_differ_from_their_defaults_come_first(broker: Cluster, page: ConsoleCluster) -> None:
    assert page.topic_configs("orders")[0].source == "default config"
    brokers = page.broker_configs(page.overview().brokers[0].broker_id)
    assert brokers[0].is_override
    assert brokers[0].source == "static broker config"
    assert not brokers[-1].is_override


def test_a_group_without_members_has_its_lag_and_an_unknown_one_is_dead(broker: Cluster, page: ConsoleCluster) -> None:
    with open_admin(ClusterAccess(broker.bootstrap_servers, client_id="test")) as admin:
        commit(admin, "readers", {TopicPartition("orders", 0): 3})
    assert [(each.group_id, each.state, each.protocol) for each in page.groups()] == [("readers", "Empty", "Classic")]
    group = page.group("readers")
    assert (group.state, group.members, group.lag) == ("Empty", (), 2)
    assert [(row.topic, row.partition, row.committed, row.end) for row in group.rows] == [("orders", 0, 3, 5)]
    assert (page.group("nobody").state, page.group("nobody").rows) == ("Dead", ())


def test_a_broker_that_was_restarted_is_asked_again_over_a_new_connection(
    broker: Cluster, page: ConsoleCluster
) -> None:
    assert orders(page).records == 6
    broker.restart()
    assert orders(page).records == 6


def test_of_many_open_transactions_the_oldest_is_among_those_that_are_described() -> None:
    """With any name: brokers list transactions without their times."""
    with Cluster() as broker, open_admin(ClusterAccess(broker.bootstrap_servers, client_id="test")) as admin:
        producers = []
        for name in ("the oldest", "a", "b", "c"):
            settings = {"transactional.id": name, "transaction.timeout.ms": 900_000}
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers} | settings)
            producer.init_transactions(30)
            producer.begin_transaction()
            producer.produce("paid", b"x")
            producer.flush()
            producers.append(producer)
            if name == "the oldest":
                broker.advance(minutes=10)
        count, described = describe_open_transactions(admin, 2)
        assert (count, described[0].transactional_id, len(described)) == (4, "the oldest", 2)
        for producer in producers:
            producer.abort_transaction(30)


def test_open_transactions_are_shown_the_oldest_first_until_they_end(broker: Cluster, page: ConsoleCluster) -> None:
    broker.create_topic("paid", partitions=2)
    producers = []
    for name in ("first", "second"):
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name, "transaction.timeout.ms": 600_000}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce("paid", b"x", partition=partition)
        producer.flush()
        producers.append(producer)
    shown = page.open_transactions()
    assert shown.count == 2
    assert [(row.transactional_id, row.state, row.timeout_s) for row in shown.rows] == [
        ("first", "Ongoing", 600),
        ("second", "Ongoing", 600),
    ]
    assert [(row.topics, row.partitions) for row in shown.rows] == [(("paid",), 2)] * 2
    assert shown.oldest_s == shown.rows[0].age_s
    for producer in producers:
        producer.abort_transaction(30)
    assert page.open_transactions().rows == ()


def test_each_snapshot_asks_the_cluster_once_and_stays_while_nobody_answers() -> None:
    snapshot = msgspec.structs.replace(NOTHING, taken_s=1.0)
    with Cluster() as cluster:
        page = ConsoleCluster(ClusterAccess(cluster.bootstrap_servers))
        watch = ClusterWatch(page)
        seen = watch.at(snapshot)
        assert seen.state is not None
        [row] = seen.state.brokers
        assert (seen.error, row.address) == (None, cluster.bootstrap_servers)
        assert (seen.state.broker(row.broker_id), seen.state.broker(99)) == (row, None)
        assert "streams groups" in seen.not_served
        cluster.restart()
        assert watch.at(snapshot) is seen
        assert watch.at(msgspec.structs.replace(snapshot, taken_s=2.0)) is not seen
    later = watch.at(msgspec.structs.replace(snapshot, taken_s=3.0))
    page.close()
    assert later.error is not None
    assert later.state is not None
    assert later.not_served == seen.not_served
