"""Transactions of each client: records and offsets count once they are committed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.conformance.clients import ALL_CLIENTS, FOREIGN_CLIENTS, Client, ClientError, Position, Received, login
from tests.conformance.clients.confluent import ConfluentKafka

TIMEOUT_S = 30


CLIENTS_WITH_TRANSACTIONS = pytest.mark.parametrize(
    "client",
    [
        pytest.param(name, marks=pytest.mark.foreign) if name in FOREIGN_CLIENTS else name
        for name, kind in ALL_CLIENTS.items()
        if kind.has_transactions
    ],
    indirect=True,
)


def committed_values(bootstrap_servers: str, topic: str, count: int) -> list[bytes | None]:
    """librdkafka reads only committed records."""
    return [received.value for received in ConfluentKafka(bootstrap_servers).read(topic, count)]


def committed_offset(bootstrap_servers: str, group: str, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "client.id": "fixture", **login.librdkafka()})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    (answer,) = admin.list_consumer_group_offsets([asked]).values()
    return answer.result(TIMEOUT_S).topic_partitions[0].offset


@CLIENTS_WITH_TRANSACTIONS
def test_a_committed_transaction_is_read_and_an_aborted_one_is_not(
    client: Client, bootstrap_servers: str, new_topic: Callable[..., str], new_name: Callable[[str], str]
) -> None:
    topic, name = new_topic(), new_name("id")
    client.transact(name, topic, ["a", "b"], is_commit=True)
    client.transact(name, topic, ["never"], is_commit=False)
    client.transact(name, topic, ["c"], is_commit=True)
    assert committed_values(bootstrap_servers, topic, 3) == [b"a", b"b", b"c"]


@pytest.mark.slow
@CLIENTS_WITH_TRANSACTIONS
def test_positions_count_once_their_transaction_is_committed(
    client: Client, bootstrap_servers: str, new_topic: Callable[..., str], new_name: Callable[[str], str]
) -> None:
    topic, source, group, name = new_topic(), new_topic(), new_name("group"), new_name("id")
    ConfluentKafka(bootstrap_servers).produce(source, [Received(None, b"%d" % number) for number in range(5)])
    client.transact(name, topic, ["a"], is_commit=True, position=Position(group, source, 2))
    assert committed_offset(bootstrap_servers, group, source) == 2
    client.transact(name, topic, ["never"], is_commit=False, position=Position(group, source, 3))
    assert committed_offset(bootstrap_servers, group, source) == 2
    assert committed_values(bootstrap_servers, topic, 1) == [b"a"]


@CLIENTS_WITH_TRANSACTIONS
def test_a_later_producer_of_a_transactional_id_fences_the_one_before(
    client: Client, bootstrap_servers: str, new_topic: Callable[..., str], new_name: Callable[[str], str]
) -> None:
    topic, name = new_topic(), new_name("id")
    with pytest.raises(ClientError):
        client.fence(name, topic)
    client.transact(name, topic, ["new"], is_commit=True)
    assert committed_values(bootstrap_servers, topic, 1) == [b"new"]
