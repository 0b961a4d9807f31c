"""moldau.testing: messages for wrong tests, and parts that a test may leave to the kit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer

from moldau.errors import InvalidConfigError, KafkaError
from moldau.testing import Cluster, NotReachedError
from moldau.testing.faults import Faults


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda faults: faults.error("OffsetCommit", "NOT_COORD"), "did you mean NOT_COORDINATOR"),
        (
            lambda faults: faults.error("Produce", "bogus"),
            "Kafka has no error 'bogus'; docs/reference/errors.md lists",
        ),
        (lambda faults: faults.error("Produce", "NotCoordinatorError"), "did you mean NOT_COORDINATOR"),
        (lambda faults: faults.error("Produce", "NotCoordinatorException"), "did you mean NOT_COORDINATOR"),
        (lambda faults: faults.error("Produce", "not-leader"), "did you mean NOT_LEADER_OR_FOLLOWER"),
        (lambda faults: faults.error("Produce", "InvalidTopic"), "did you mean INVALID_TOPIC_EXCEPTION"),
        (lambda faults: faults.error("Produce", "kafka_storage"), "did you mean KAFKA_STORAGE_ERROR"),
        (lambda faults: faults.error("Produce", "NONE"), "Kafka has no error 'NONE'; "),
        (lambda faults: faults.error("Produce", 0), "Kafka has no error 0: its errors are -1 and 1 to 136"),
        (lambda faults: faults.error("Produce", 999), "Kafka has no error 999: its errors are -1 and 1 to 136"),
        (lambda faults: faults.drop("Prodcue"), "did you mean Produce"),
        (lambda faults: faults.drop("ShareFetch"), "no request named 'ShareFetch'; docs/"),
        (lambda faults: faults.drop("Produce", when="later"), "'before' and 'after'"),
        (lambda faults: faults.script().delay("Fetch", ms=-1), "the least delay is 0 ms"),
        (lambda faults: faults.drop("Heartbeat", topic="orders"), "a request of Heartbeat names no topic"),
        (lambda faults: faults.drop(["Produce", "Fetch"], group="g"), "a request of Produce, Fetch names no group"),
        (lambda faults: faults.drop([]), r"api=\[\] names no request; '\*' are all"),
        (lambda faults: faults.error((), "NOT_COORDINATOR"), r"api=\(\) names no request"),
        (lambda faults: faults.script().skip([]), r"api=\[\] names no request"),
        (lambda faults: faults.random(seed=7, rate=0.5, api=[]), r"api=\[\] names no request"),
    ],
)
def test_a_fault_that_could_not_happen_is_refused(ask: Callable[[Faults], object], told: str) -> None:
    faults = Faults(lambda: 0, lambda: None)
    with pytest.raises(ValueError, match=told):
        ask(faults)
    assert not faults.are_any


@pytest.mark.parametrize("api", ["OffsetCommit", "Fetch", "DeleteTopics", ["Heartbeat", "Metadata"], "*"])
def test_a_topic_may_be_named_where_some_request_names_one(api: str) -> None:
    faults = Faults(lambda: 0, lambda: None)
    faults.drop(api, topic="orders")
    assert faults.are_any


@pytest.mark.parametrize("value", [3, {"a": 1}, ["a"], 1.5])
def test_a_value_that_is_no_bytes_is_told_by_its_type(cluster: Cluster, value: object) -> None:
    topic = cluster.topic()
    mistaken: list = [value]
    with pytest.raises(TypeError, match=f"is bytes, str or None, not {type(value).__name__}"):
        cluster.produce(topic, *mistaken)
    assert list(cluster.records(topic)) == []


def test_an_unknown_topic_is_named_when_it_is_to_be_deleted(cluster: Cluster) -> None:
    with pytest.raises(KafkaError, match="there is no topic 'orderz'"):
        cluster.delete_topic("orderz")


def test_settings_may_be_numbers_truths_and_lists() -> None:
    with Cluster(settings={"num.partitions": 3, "auto.create.topics.enable": False}) as cluster:
        cluster.create_topic("kept", partitions=-1, config={"cleanup.policy": ["compact", "delete"]})
        assert len(cluster.record_counts("kept")) == 3
        with pytest.raises(KafkaError, match="no topic 'orders'"):
            cluster.produce("orders", "coffee")


def test_a_setting_that_does_nothing_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"super\.users has no effect"):
        Cluster(settings={"super.users": "ada"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Cluster(settings={"num.partitions": "3"})


def test_a_misspelt_setting_is_an_error_with_the_nearest_name() -> None:
    for wrong, right in (("num.partition", "num.partitions"), ("retention.ms", "log.retention.ms")):
        with pytest.raises(InvalidConfigError, match=rf"^{wrong} is not a setting .*; did you mean {right}\?$"):
            Cluster(settings={wrong: 3})


@pytest.fixture
def long_lived() -> Iterator[Cluster]:
    # the next check deletes an empty group without offsets, as in Kafka
    with Cluster(settings={"offsets.retention.check.interval.ms": 3_600_000}) as running:
        yield running


def test_a_group_whose_last_member_is_gone_is_empty_and_has_no_lag(long_lived: Cluster) -> None:
    cluster = long_lived
    cluster.produce("orders", "coffee")
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "kitchen", "enable.auto.commit": False}
    )
    consumer.subscribe(["orders"])
    cluster.wait_for(lambda: consumer.poll(0.05) or consumer.assignment())
    cluster.wait_for(group="kitchen", members=1)
    consumer.close()
    cluster.wait_for(group="kitchen", members=0)
    view = cluster.group("kitchen")
    assert (view.state, view.members, view.lag) == ("Empty", (), {})
    # nothing was committed: that is not a lag of 0
    with pytest.raises(KafkaError, match="has committed nothing"):
        cluster.lag("kitchen")
    with pytest.raises(NotReachedError, match="'kitchen' is Empty, and has committed nothing"):
        cluster.wait_for(group="kitchen", lag=0, timeout=0)


def test_produce_without_a_value_is_refused(cluster: Cluster) -> None:
    """A test that forgot the value would wait for a record that was never written."""
    topic = cluster.topic()
    for key in (None, "k"):
        with pytest.raises(
            ValueError, match=f"produce\\('{topic}'\\) names no value: give one .* None for a tombstone"
        ):
            cluster.produce(topic, key=key)
    assert list(cluster.records(topic)) == []
    assert [record.value for record in cluster.produce(topic, None)] == [None]
