"""A request to the wrong broker gets the leader and its address, in versions with a field for it (KIP-951)."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.errors import ERROR_CODES
from moldau.types import BrokerId, LeaderEpoch
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages import fetch as fetching
from moldau.wire.protocol.messages import produce as producing
from tests.support.node import change, data_of, fetch, produce, register, result_of

pytestmark = pytest.mark.asyncio

OTHER = 7
NOT_LEADER = ERROR_CODES["NOT_LEADER_OR_FOLLOWER"]
FENCED = ERROR_CODES["FENCED_LEADER_EPOCH"]


async def led_elsewhere(start_node: Any) -> Any:
    """Topic t: broker 7 leads in epoch 5; this one has no replica."""
    node = await start_node()
    await node.create_topic("t")
    register(node, OTHER, rack="r")
    change(node, replicas=(OTHER,), isr=(OTHER,), leader=BrokerId(OTHER), leader_epoch=LeaderEpoch(5))
    return node


@pytest.mark.parametrize("partitions", [1, 300])
async def test_a_producer_is_told_who_leads(start_node: Any, partitions: int) -> None:
    node = await led_elsewhere(start_node)
    request = produce(b"a")
    [topic] = request.topic_data
    rows = tuple(producing.PartitionProduceData(index, topic.partition_data[0].records) for index in range(partitions))
    request = producing.ProduceRequest(acks=-1, topic_data=(producing.TopicProduceData("t", partition_data=rows),))
    answer = await node.connect().ask(ApiKey.PRODUCE, 12, request)
    row = result_of(answer)
    assert (row.error_code, row.current_leader) == (NOT_LEADER, producing.LeaderIdAndEpoch(OTHER, 5))
    assert answer.node_endpoints == (producing.NodeEndpoint(OTHER, "host-7", 9, "r"),)


async def test_a_consumer_is_told_who_leads(start_node: Any) -> None:
    node = await led_elsewhere(start_node)
    topic_id = node.node.broker.image.topic_id("t")
    partition = fetching.FetchPartition(0, partition_max_bytes=9)
    request = fetching.FetchRequest(topics=(fetching.FetchTopic(topic_id=topic_id, partitions=(partition,)),))
    answer = await node.connect().ask(ApiKey.FETCH, 16, request)
    row = data_of(answer)
    assert (row.error_code, row.current_leader) == (NOT_LEADER, fetching.LeaderIdAndEpoch(OTHER, 5))
    assert answer.node_endpoints == (fetching.NodeEndpoint(OTHER, "host-7", 9, "r"),)


async def test_a_consumer_that_knows_an_older_epoch_is_told_of_this_one(node: Any) -> None:
    await node.create_topic("t")
    change(node, leader_epoch=LeaderEpoch(5))
    topic_id = node.node.broker.image.topic_id("t")
    partition = fetching.FetchPartition(0, 4, partition_max_bytes=9)
    request = fetching.FetchRequest(topics=(fetching.FetchTopic(topic_id=topic_id, partitions=(partition,)),))
    row = data_of(await node.connect().ask(ApiKey.FETCH, 17, request))
    assert (row.error_code, row.current_leader.leader_epoch) == (FENCED, 5)


async def test_where_nobody_leads_there_is_no_address(start_node: Any) -> None:
    node = await led_elsewhere(start_node)
    change(node, leader=BrokerId(-1), leader_epoch=LeaderEpoch(6))
    answer = await node.connect().ask(ApiKey.PRODUCE, 10, produce(b"a"))
    assert result_of(answer).current_leader == producing.LeaderIdAndEpoch(-1, 6)
    assert answer.node_endpoints == ()


async def test_older_versions_and_other_errors_name_no_leader(start_node: Any) -> None:
    node = await led_elsewhere(start_node)
    client = node.connect()
    assert result_of(await client.ask(ApiKey.PRODUCE, 9, produce(b"a"))).error_code == NOT_LEADER
    assert data_of(await client.ask(ApiKey.FETCH, 12, fetch(0))).error_code == NOT_LEADER
    unknown = await client.ask(ApiKey.PRODUCE, 10, produce(b"a", topic="u"))
    assert result_of(unknown).current_leader == producing.LeaderIdAndEpoch()
