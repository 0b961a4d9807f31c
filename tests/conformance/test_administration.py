"""Administration by clients: partitions, configs, deletions, groups, offsets by time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.conformance.clients import ALL_CLIENTS, FOREIGN_CLIENTS, Client, Received, login


def clients_that(*operations: str) -> pytest.MarkDecorator:
    """Runs the test with every client whose `administer` has these operations."""
    return pytest.mark.parametrize(
        "client",
        [
            pytest.param(name, marks=pytest.mark.foreign if name in FOREIGN_CLIENTS else ())
            for name, kind in ALL_CLIENTS.items()
            if kind.operations.issuperset(operations)
        ],
        indirect=True,
    )


KNOWN_WITHIN_S = 30


def eventually(condition: Callable[[], bool]) -> None:
    """With several brokers, those that did not make a change learn it a moment later."""
    end_s = time.monotonic() + KNOWN_WITHIN_S
    while not condition():
        assert time.monotonic() < end_s


@clients_that("add_partitions", "partition_count")
def test_partitions_are_added_and_written_to(client: Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=1)
    client.administer("add_partitions", topic=topic, total=3)
    eventually(lambda: client.administer("partition_count", topic=topic) == 3)
    client.produce(topic, [Received(b"k", b"third")], partition=2)
    assert client.read(topic, 1, partition=2) == [Received(b"k", b"third")]


@clients_that("add_partitions", "partition_count")
def test_fewer_partitions_are_refused_and_change_nothing(client: Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    # each client has its own error for code 37
    with pytest.raises(Exception, match=r"(?i)partition|37"):
        client.administer("add_partitions", topic=topic, total=2)
    eventually(lambda: client.administer("partition_count", topic=topic) == 3)


@clients_that("config", "set_config")
def test_a_changed_config_is_described_and_acts(client: Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    assert client.administer("config", topic=topic, name="retention.ms") == "604800000"
    client.administer("set_config", topic=topic, name="max.message.bytes", value="1000")
    assert client.administer("config", topic=topic, name="max.message.bytes") == "1000"
    # each client has its own error for code 10
    with pytest.raises(Exception, match=r"(?i)large|size|10"):
        client.produce(topic, [Received(None, b"x" * 2_000)])
    client.produce(topic, [Received(None, b"small")])
    assert client.read(topic, 1) == [Received(None, b"small")]


@clients_that("delete_records")
def test_deleted_records_are_not_read_again(client: Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    client.produce(topic, [Received(None, b"%d" % n) for n in range(5)])
    assert client.administer("delete_records", topic=topic, partition=0, offset=3) == 3
    assert client.read(topic, 2) == [Received(None, b"3"), Received(None, b"4")]


@clients_that("groups")
def test_a_group_is_listed(client: Client, new_topic: Callable[..., str], new_name: Callable[[str], str]) -> None:
    topic, group = new_topic(), new_name("group")
    client.produce(topic, [Received(None, b"v")])
    client.read_and_commit(topic, group, 1)
    assert group in client.administer("groups")


@clients_that("delete_group")
def test_a_deleted_group_starts_from_the_beginning(
    client: Client, new_topic: Callable[..., str], new_name: Callable[[str], str]
) -> None:
    topic, group = new_topic(), new_name("group")
    client.produce(topic, [Received(None, b"first"), Received(None, b"second")])
    assert client.read_and_commit(topic, group, 1) == [b"first"]
    client.administer("delete_group", group=group)
    assert client.read_and_commit(topic, group, 1) == [b"first"]


@clients_that("offset_at")
def test_an_offset_is_found_by_time(client: Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    client.produce(topic, [Received(None, b"v")])
    an_hour_ago_ms = int(time.time() * 1000) - 3_600_000
    assert client.administer("offset_at", topic=topic, partition=0, timestamp=an_hour_ago_ms) == 0


@clients_that("delete_topic", "groups")
def test_a_deleted_topic_is_gone(client: Client, new_topic: Callable[..., str], bootstrap_servers: str) -> None:
    from confluent_kafka.admin import AdminClient

    topic = new_topic()
    client.administer("delete_topic", topic=topic)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, **login.librdkafka()})
    eventually(lambda: topic not in admin.list_topics(timeout=30).topics)
