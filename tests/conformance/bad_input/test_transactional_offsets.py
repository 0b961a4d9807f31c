"""Section "Transactions" of the table of bad input: the committed offsets of a group, and requests after the broker
itself aborted a transaction or while `transaction.version` is 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from moldau.wire.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from moldau.wire.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from moldau.wire.protocol.messages.transactions import DescribeTransactionsRequest
from tests.support.wire import RawConnection
from tests.support.wire_groups import joined
from tests.support.wire_produce import batch, produce
from tests.support.wire_transactions import Producer, asked_until

NewTopic = Callable[..., str]
UNSTABLE = 88
UPGRADE, SAFE_DOWNGRADE = 1, 2


@pytest.fixture
def led_topic(raw: RawConnection, new_topic: NewTopic) -> str:
    """Apache Kafka reports a topic before it leads it."""
    topic = new_topic()
    assert asked_until(lambda: produce(raw, topic, bytes(batch()))[0], (3, 6)) == 0
    return topic


@pytest.fixture
def producer(raw: RawConnection) -> Producer:
    return Producer(raw)


@pytest.mark.parametrize(("version", "code"), [(0, 48), (2, 48), (3, 48), (4, 120), (5, 0)])
def test_positions_of_a_group_that_was_not_added(producer: Producer, led_topic: str, version: int, code: int) -> None:
    topic = led_topic
    assert producer.commit(version, (topic, 0)) == [code]
    assert producer.position(topic) == (-1, 0 if code else UNSTABLE)
    if version < 5:
        assert producer.add_group() == 0
        assert producer.commit(version, (topic, 0)) == [0]
    assert producer.end(version) == 0
    assert producer.settled_position(topic) == (5, 0)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_positions_that_are_refused(producer: Producer, led_topic: str, version: int) -> None:
    topic = led_topic
    member = joined(producer.raw, producer.group)
    assert producer.init() == 0
    for is_added in (False, True):
        assert producer.commit(version, (topic, 0), above=-1) == [47]
        assert producer.commit(version, ("unknown", 0)) == [3]
        if not is_added and version < 5:
            assert producer.add_group() == 0
    known = {"generation_id_or_member_epoch": member.generation_id, "member_id": member.member_id}
    assert producer.commit(version, (topic, 0), **{**known, "member_id": "nobody"}) == [25]
    assert producer.commit(
        version, (topic, 0), **{**known, "generation_id_or_member_epoch": member.generation_id + 1}
    ) == [22]
    assert producer.commit(version, (topic, 0), metadata="x" * 4_097, **known) == [12]
    assert producer.position(topic) == (-1, 0)
    assert producer.commit(version, ("unknown", 0), (topic, 9), (topic, 0), **known) == [3, 3, 0]
    assert producer.position(topic) == (-1, UNSTABLE)
    assert producer.commit(version, (topic, 0), name="nobody", **known) == [0]
    assert producer.end(version) == 0
    assert producer.settled_position(topic) == (5, 0)


def test_positions_while_a_transaction_is_open(producer: Producer, led_topic: str, new_topic: NewTopic) -> None:
    topic, other = led_topic, new_topic()
    assert producer.commit(5, (topic, 0)) == [0]
    assert producer.position(topic) == (-1, UNSTABLE)
    assert [producer.position(topic, version, is_stable=False) for version in (6, 7)] == [(-1, 0)] * 2
    assert producer.position(other) == (-1, 0)
    group = OffsetFetchRequestGroup(
        producer.group, topics=tuple(OffsetFetchRequestTopics(name, partition_indexes=(0,)) for name in (topic, other))
    )
    for version in (8, 9):
        (answer,) = producer.raw.ask(OffsetFetchRequest(groups=(group,), require_stable=True), version).groups
        codes = {row.name: row.partitions[0].error_code for row in answer.topics}
        assert (answer.error_code, codes) == (0, {topic: UNSTABLE, other: 0})
    assert producer.end(5, commit=False) == 0
    assert producer.settled_position(topic) == (-1, 0)


def test_what_is_asked_after_the_broker_aborted_a_transaction_on_its_timeout(
    raw: RawConnection, led_topic: str
) -> None:
    topic = led_topic
    producer = Producer(raw, timeout_ms=1_000)
    assert producer.produce(12, topic) == 0
    assert producer.commit(5, (topic, 0)) == [0]
    own = producer.ids
    describe = DescribeTransactionsRequest((producer.name,))
    while (found := raw.ask(describe, 0).transaction_states[0]).transaction_state != "CompleteAbort":
        assert found.transaction_state in ("Ongoing", "PrepareAbort")
    assert (found.producer_id, found.producer_epoch) == (own[0], own[1] + 1)
    for commit in (True, False):
        assert [producer.end(version, commit=commit) for version in range(5)] == [47, 47, 90, 90, 90]
    assert [producer.produce(version, topic, 1) for version in (9, 11, 12)] == [47, 47, 47]
    assert producer.add((topic, 0)) == [90]
    assert [producer.commit(version, (topic, 0)) for version in (3, 4, 5)] == [[47], [47], [47]]
    assert producer.settled_position(topic) == (-1, 0)
    assert producer.end(5) == 48
    assert producer.end(5, commit=False) == 0
    assert producer.ids == (own[0], own[1] + 1)
    assert producer.produce(12, topic) == 0
    assert producer.end(5) == 0


@contextmanager
def level(raw: RawConnection, transaction_version: int) -> Iterator[None]:
    """Sets that level, and 2 afterwards."""

    def finalize(wanted: int, kind: int) -> None:
        update = FeatureUpdateKey("transaction.version", wanted, upgrade_type=kind)
        answer = raw.ask(UpdateFeaturesRequest(feature_updates=(update,)), 2)
        assert (answer.error_code, answer.error_message) == (0, None)

    finalize(transaction_version, SAFE_DOWNGRADE)
    try:
        yield
    finally:
        finalize(2, UPGRADE)


def test_what_joins_by_itself_while_transactions_v2_are_not_finalized(
    raw: RawConnection, led_topic: str, is_moldau: bool
) -> None:
    topic = led_topic
    with level(raw, 0):
        one, other, third = (Producer(raw) for _ in range(3))
        assert one.produce(12, topic) == 35
        assert other.commit(5, (topic, 0)) == [35]
        assert other.position(topic) == (-1, 0)
        assert [third.produce(9, topic), third.produce(11, topic)] == [48, 120]
        # in Apache Kafka such a rejected id waits for ever for a change that was never written (51)
        if is_moldau:
            assert [one.produce(12, topic), one.commit(5, (topic, 0))] == [35, [35]]
            assert [one.add((topic, 0)), one.produce(11, topic)] == [[0], 0]
        assert third.add((topic, 0)) == [0]
        assert third.add_group() == 0
        assert third.produce(12, topic) == 0
        assert third.produce(11, topic, 1) == 0
        assert third.commit(5, (topic, 0)) == [0]
        assert not is_moldau or third.end(5) == 35
        assert third.end(4) == 0
        assert third.settled_position(topic) == (5, 0)
    assert third.produce(12, topic, 2) == 0
    assert third.end(5) == 0
