"""A client that fetches like a follower: readable records, the meaning of its offset, and rejected requests.

The codes are those of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moldau.errors import ERROR_CODES
from moldau.shell.network.rights import CLUSTER_ACTION, READ_TOPIC
from moldau.types import BrokerId, LeaderEpoch
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tests.support.authorizers import AllBut
from tests.support.node import BROKER_EPOCH, change, data_of, fetch, produce, register, result_of, values_of

pytestmark = pytest.mark.asyncio

FOLLOWER = 7
NOT_LEADER = ERROR_CODES["NOT_LEADER_OR_FOLLOWER"]


async def led_here(start_node: Any, *, isr: tuple[int, ...] | None = None, **configs: str) -> Any:
    """Topic t: this broker leads in epoch 5, broker 7 holds the other replica and is in sync."""
    node = await start_node()
    await node.create_topic("t", **configs)
    register(node, FOLLOWER)
    us = node.node.node_id
    change(node, replicas=(us, FOLLOWER), isr=isr or (us, FOLLOWER), leader_epoch=LeaderEpoch(5))
    return node


def follow(
    node: Any,
    offset: int,
    *,
    replica: tuple[int, int] = (FOLLOWER, BROKER_EPOCH),
    epoch: int = 5,
    fetched_epoch: int = -1,
    **fields: Any,
) -> FetchRequest:
    """In version 17."""
    topic_id = node.node.broker.image.topic_id("t")
    partition = FetchPartition(0, epoch, offset, fetched_epoch, partition_max_bytes=1 << 20)
    asked: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **fields}
    topics = (FetchTopic(topic_id=topic_id, partitions=(partition,)),)
    return FetchRequest(replica_state=ReplicaState(*replica), topics=topics, **asked)


async def test_acks_all_is_answered_when_the_follower_asks_for_what_comes_next(start_node: Any) -> None:
    node = await led_here(start_node)
    writer, follower = node.connect(), node.connect()
    writer.send(ApiKey.PRODUCE, 9, produce(b"a"))
    first = await follower.ask(ApiKey.FETCH, 17, follow(node, 0))
    assert (values_of(first), data_of(first).high_watermark) == ([b"a"], 0)
    assert writer.answers() == []
    second = data_of(await follower.ask(ApiKey.FETCH, 17, follow(node, 1)))
    assert (second.error_code, second.high_watermark) == (0, 1)
    await node.turns(5)
    assert [result_of(answer).error_code for answer in writer.answers()] == [0]


async def test_a_follower_reads_to_the_log_end_and_a_consumer_to_the_high_watermark(start_node: Any) -> None:
    node = await led_here(start_node)
    client = node.connect()
    await client.ask(ApiKey.PRODUCE, 9, produce(b"a", acks=1))
    assert values_of(await client.ask(ApiKey.FETCH, 12, fetch(0))) == []
    assert values_of(await client.ask(ApiKey.FETCH, 17, follow(node, 0))) == [b"a"]


async def test_a_parked_follower_is_answered_at_the_append(start_node: Any) -> None:
    node = await led_here(start_node)
    writer, follower = node.connect(), node.connect()
    follower.send(ApiKey.FETCH, 17, follow(node, 0, max_wait_ms=60_000))
    await node.turns(5)
    assert follower.answers() == []
    writer.send(ApiKey.PRODUCE, 9, produce(b"a"))
    assert values_of(await follower.answer()) == [b"a"]


async def test_a_partition_of_a_session_that_is_not_named_stands_where_it_stood(start_node: Any) -> None:
    node = await led_here(start_node)
    writer, follower = node.connect(), node.connect()
    opened = await follower.ask(ApiKey.FETCH, 17, follow(node, 0, session_epoch=0))
    again = FetchRequest(
        replica_state=ReplicaState(FOLLOWER, BROKER_EPOCH),
        max_wait_ms=60_000,
        min_bytes=1,
        session_id=opened.session_id,
        session_epoch=1,
    )
    follower.send(ApiKey.FETCH, 17, again)
    writer.send(ApiKey.PRODUCE, 9, produce(b"a"))
    assert values_of(await follower.answer()) == [b"a"]
    assert writer.answers() == []


async def test_a_position_beyond_the_log_or_of_another_history_counts_for_nothing(start_node: Any) -> None:
    node = await led_here(start_node)
    writer, follower = node.connect(), node.connect()
    writer.send(ApiKey.PRODUCE, 9, produce(b"a"))
    beyond = data_of(await follower.ask(ApiKey.FETCH, 17, follow(node, 9)))
    assert beyond.error_code == ERROR_CODES["OFFSET_OUT_OF_RANGE"]
    parted = data_of(await follower.ask(ApiKey.FETCH, 17, follow(node, 4, fetched_epoch=5)))
    assert (parted.error_code, parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == (0, 5, 1)
    await node.turns(5)
    assert writer.answers() == []


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"epoch": 4}, "FENCED_LEADER_EPOCH"),
        ({"epoch": 6}, "UNKNOWN_LEADER_EPOCH"),
        ({"replica": (8, 80)}, "UNKNOWN_LEADER_EPOCH"),
        ({"replica": (8, 80), "epoch": -1}, "NOT_LEADER_OR_FOLLOWER"),
    ],
)
async def test_a_fetch_that_is_of_no_follower_of_this_epoch_is_refused(
    start_node: Any, fields: dict[str, Any], name: str
) -> None:
    node = await led_here(start_node)
    answer = data_of(await node.connect().ask(ApiKey.FETCH, 17, follow(node, 0, **fields)))
    assert answer.error_code == ERROR_CODES[name]


async def test_a_broker_that_has_restarted_is_not_followed_by_its_past(start_node: Any) -> None:
    node = await led_here(start_node)
    client = node.connect()
    await client.ask(ApiKey.FETCH, 17, follow(node, 0))
    late = data_of(await client.ask(ApiKey.FETCH, 17, follow(node, 0, replica=(FOLLOWER, BROKER_EPOCH - 1))))
    assert late.error_code == NOT_LEADER


async def test_a_follower_needs_cluster_action_and_no_right_to_the_topic(start_node: Any) -> None:
    node = await led_here(start_node)

    node.node.dispatcher.authorizer = AllBut(READ_TOPIC)
    client = node.connect()
    assert data_of(await client.ask(ApiKey.FETCH, 17, follow(node, 0))).error_code == 0
    node.node.dispatcher.authorizer = AllBut(CLUSTER_ACTION)
    denied = data_of(await client.ask(ApiKey.FETCH, 17, follow(node, 0)))
    assert denied.error_code == ERROR_CODES["TOPIC_AUTHORIZATION_FAILED"]


async def test_a_parked_follower_hears_of_the_end_of_the_leadership(start_node: Any) -> None:
    node = await led_here(start_node)
    follower = node.connect()
    follower.send(ApiKey.FETCH, 17, follow(node, 0, max_wait_ms=60_000))
    change(node, leader=BrokerId(FOLLOWER), leader_epoch=LeaderEpoch(6))
    assert data_of(await follower.answer()).error_code == ERROR_CODES["FENCED_LEADER_EPOCH"]


async def test_a_long_request_of_a_follower_is_served_as_a_short_one(start_node: Any) -> None:
    node = await led_here(start_node)
    writer, follower = node.connect(), node.connect()
    writer.send(ApiKey.PRODUCE, 9, produce(b"a"))
    asked = follow(node, 1)
    many = tuple(msgspec.structs.replace(asked.topics[0].partitions[0], partition=index) for index in range(1_200))
    topics = (msgspec.structs.replace(asked.topics[0], partitions=many),)
    answer = await follower.ask(ApiKey.FETCH, 17, msgspec.structs.replace(asked, topics=topics))
    assert answer.responses[0].partitions[0].error_code == 0
    await node.turns(5)
    assert [result_of(answer).error_code for answer in writer.answers()] == [0]
