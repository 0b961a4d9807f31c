"""Consumer groups: partitions move when members join, leave and die; offsets stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.conformance.clients import Client, Received, login
from tests.conformance.clients.interface import Member


@pytest.fixture
def start_member(client: Client) -> Iterator[Callable[[str, str], Member]]:
    members: list[Member] = []

    def start(topic: str, group: str) -> Member:
        members.append(client.member(topic, group))
        return members[-1]

    yield start
    for member in members:
        member.kill()


def test_a_group_resumes_where_it_committed(
    client: Client, new_topic: Callable[..., str], new_name: Callable[[str], str]
) -> None:
    topic, group = new_topic(), new_name("group")
    client.produce(topic, [Received(None, b"%d" % n) for n in range(4)])
    assert client.read_and_commit(topic, group, 2) == [b"0", b"1"]
    assert client.read_and_commit(topic, group, 2) == [b"2", b"3"]


def test_two_groups_each_read_everything(
    client: Client, new_topic: Callable[..., str], new_name: Callable[[str], str]
) -> None:
    topic = new_topic()
    client.produce(topic, [Received(None, b"%d" % n) for n in range(3)])
    for _ in range(2):
        assert client.read_and_commit(topic, new_name("group"), 3) == [b"0", b"1", b"2"]


@pytest.mark.slow
def test_partitions_move_when_a_member_joins_leaves_and_is_killed(
    client: Client,
    new_topic: Callable[..., str],
    new_name: Callable[[str], str],
    start_member: Callable[[str, str], Member],
) -> None:
    topic, group = new_topic(partitions=2), new_name("group")
    first = start_member(topic, group)
    first.wait_for_assignment(2)
    second = start_member(topic, group)
    second.wait_for_assignment(1)
    first.wait_for_assignment(1)
    assert first.assignment != second.assignment

    second.leave()
    first.wait_for_assignment(2)

    third = start_member(topic, group)
    third.wait_for_assignment(1)
    first.wait_for_assignment(1)
    third.kill()
    first.wait_for_assignment(2)

    client.produce(topic, [Received(None, b"after"), Received(None, b"all")], partition=1)
    first.wait_until(lambda member: set(member.values) >= {"after", "all"})


@pytest.mark.slow
def test_a_third_member_of_two_partitions_is_idle(
    client: Client,
    new_topic: Callable[..., str],
    new_name: Callable[[str], str],
    start_member: Callable[[str, str], Member],
) -> None:
    topic, group = new_topic(partitions=2), new_name("group")
    members = [start_member(topic, group) for _ in range(3)]

    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": client.bootstrap_servers, **login.librdkafka()})

    def owned_as_described() -> list[list[int]] | None:
        """The partitions of each member by the broker's description, or None while the group is not stable."""
        description = admin.describe_consumer_groups([group])[group].result(timeout=30)
        if description.state.name != "STABLE" or len(description.members) != len(members):
            return None
        return sorted([p.partition for p in member.assignment.topic_partitions] for member in description.members)

    for _ in range(600):
        if owned_as_described() == [[], [0], [1]]:
            break
        admin.poll(0.1)
    assert owned_as_described() == [[], [0], [1]]
