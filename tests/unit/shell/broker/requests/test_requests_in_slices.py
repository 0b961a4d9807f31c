"""A request that names many does not block: other clients are served between its slices, and its response is
complete."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.core.groups.group_partitions import partition_for_group
from moldau.core.groups.requests import DescribeGroup, GroupRequest
from moldau.errors import ERROR_CODES, kafka_error
from moldau.shell.coordination.runtime import MAX_QUEUED
from moldau.shell.network.pauses import TURN_THINGS
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.wire.protocol.messages.groups_classic import DescribeGroupsRequest, ListGroupsRequest
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from moldau.wire.protocol.messages.partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopicRequest,
)
from moldau.wire.protocol.messages.producer_ids import (
    DescribeProducersRequest,
    DescribeProducersTopic,
    InitProducerIdRequest,
)
from moldau.wire.protocol.messages.transactions import ListTransactionsRequest
from tests.support.node import offset_commit

pytestmark = pytest.mark.asyncio

COORDINATOR_NOT_AVAILABLE = ERROR_CODES["COORDINATOR_NOT_AVAILABLE"]
COUNT = 6 * TURN_THINGS
NAMES = tuple(f"absent{number:04d}" for number in range(COUNT))


async def started(start_node: Any, settings: dict[str, str] | None = None) -> Any:
    """A node with a topic, and a group that has read two of its partitions."""
    node = await start_node(settings)
    await node.create_topic("t", 2)
    client = node.connect()
    await client.ask(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key="g"))
    await commit(client, "g")
    return node


async def commit(client: Any, group_id: str) -> None:
    await client.ask(ApiKey.OFFSET_COMMIT, 8, offset_commit(1, group=group_id, partitions=range(2)))


async def test_many_groups_are_deleted(start_node: Any) -> None:
    node = await started(start_node)
    answer = await node.answer_beside_others(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest((*NAMES, "g", NAMES[0])))
    assert [(row.group_id, row.error_code) for row in answer.results] == [*((name, 69) for name in NAMES), ("g", 0)]


async def test_many_groups_are_described(start_node: Any) -> None:
    node = await started(start_node)
    client, other = node.connect(), node.connect()
    client.send(ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest(groups=("g", *NAMES, "g", "h")))
    (deleted,) = (await other.ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(("g",)))).results
    await commit(other, "h")
    answer = await client.answer()
    rows = [(group.group_id, group.error_code) for group in answer.groups]
    # "g" was described before its deletion, "h" after its creation
    assert (deleted.error_code, rows) == (0, [("g", 0), *((name, 69) for name in NAMES), ("h", 0)])


async def test_the_groups_of_many_shards_are_listed(start_node: Any) -> None:
    shards = TURN_THINGS
    node = await started(start_node, {"offsets.topic.num.partitions": str(shards)})
    client, other = node.connect(), node.connect()
    late = next(name for name in NAMES if partition_for_group(name, shards) == shards - 1)
    client.send(ApiKey.LIST_GROUPS, 5, ListGroupsRequest())
    await commit(other, late)
    answer = await client.answer()
    assert [(group.group_id, group.group_state) for group in answer.groups] == [("g", "Empty"), (late, "Empty")]


async def test_a_list_of_groups_is_refused_while_one_of_its_shards_takes_no_more_requests(start_node: Any) -> None:
    """It would lack existing groups, and the client could not notice."""
    node = await started(start_node)
    client, shard = node.connect(), node.node.broker.coordination.groups.shard_for("g")
    rows = (OffsetCommitRequestPartition(0, 1),) * (100 * TURN_THINGS)
    long = OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic("t", partitions=rows),))
    waiting = [shard.submit(GroupRequest(long, 8))]
    waiting += [shard.submit(GroupRequest(DescribeGroup("g"), 5)) for _ in range(MAX_QUEUED)]
    answer = await client.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest())
    assert (answer.error_code, answer.groups) == (COORDINATOR_NOT_AVAILABLE, ())
    await asyncio.gather(*waiting)
    answer = await client.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest())
    assert [group.group_id for group in answer.groups] == ["g"]


async def test_transactions_are_listed_though_a_shard_goes_to_another_broker_meanwhile(start_node: Any) -> None:
    shards = TURN_THINGS
    node = await start_node({"transaction.state.log.num.partitions": str(shards)})
    client = node.connect()
    await client.ask(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest("x", key_type=1))
    name = next(name for name in NAMES if partition_for_group(name, shards) == 0)
    begin = InitProducerIdRequest(name, transaction_timeout_ms=1_000)
    assert (await client.ask(ApiKey.INIT_PRODUCER_ID, 4, begin)).error_code == 0
    client.send(ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest())
    node.node.broker.coordination.transactions.shard(shards - 1).close(kafka_error("NOT_COORDINATOR"))
    answer = await client.answer()
    assert (answer.error_code, [one.transactional_id for one in answer.transaction_states]) == (0, [name])


@pytest.mark.parametrize(("word", "names"), [("EMPTY", ["g"]), ("stable", []), ("none", [])])
async def test_groups_are_listed_though_the_filter_is_long(start_node: Any, word: str, names: list[str]) -> None:
    node = await started(start_node)
    request = ListGroupsRequest((*NAMES, *[word] * COUNT), (*NAMES, *["Classic"] * COUNT))
    answer = await node.answer_beside_others(ApiKey.LIST_GROUPS, 5, request)
    assert [group.group_id for group in answer.groups] == names


async def test_positions_of_many_topics_are_deleted(start_node: Any) -> None:
    node = await started(start_node)
    client = node.connect()
    one = (OffsetDeleteRequestPartition(0),)
    rows = tuple(OffsetDeleteRequestTopic(name, one) for name in (*NAMES, "t"))
    offsets = node.node.broker.coordination.groups.shard_for("g").host.state.offsets["g"]["t"]
    client.send(ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest("g", rows))
    assert list(offsets) == [0, 1]  # the topics are still being looked up
    answer = await client.answer()
    codes = [(topic.name, [row.error_code for row in topic.partitions]) for topic in answer.topics]
    assert codes == [*((name, [3]) for name in NAMES), ("t", [0])]
    assert list(offsets) == [1]


@pytest.mark.parametrize("is_created", [True, False])
async def test_many_coordinators_are_found(start_node: Any, is_created: bool) -> None:
    node = await (started(start_node) if is_created else start_node())
    request = FindCoordinatorRequest(coordinator_keys=NAMES)
    answer = await node.answer_beside_others(ApiKey.FIND_COORDINATOR, 6, request)
    assert [(row.key, row.error_code) for row in answer.coordinators] == [(name, 0) for name in NAMES]


async def test_many_groups_are_asked_for_their_positions(start_node: Any) -> None:
    node = await started(start_node)
    groups = tuple(OffsetFetchRequestGroup(group_id=name, topics=None) for name in (*NAMES, "g"))
    answer = await node.answer_beside_others(ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=groups))
    assert [group.group_id for group in answer.groups] == [*NAMES, "g"]
    assert [group.topics for group in answer.groups[:-1]] == [()] * COUNT
    assert [row.committed_offset for row in answer.groups[-1].topics[0].partitions] == [1, 1]


async def test_a_group_named_many_times_for_all_offsets_is_answered_once(start_node: Any) -> None:
    client = (await started(start_node)).connect()
    every = OffsetFetchRequestGroup(group_id="g", topics=None)
    one = OffsetFetchRequestGroup(group_id="g", topics=(OffsetFetchRequestTopics(name="t", partition_indexes=(1,)),))
    answer = await client.ask(ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=(every, one, every, one, every)))
    found = [[row.partition_index for topic in group.topics for row in topic.partitions] for group in answer.groups]
    assert found == [[0, 1], [1], [1]]


async def test_positions_of_one_topic_named_again_and_again_are_told_in_one_row(start_node: Any) -> None:
    client = (await started(start_node)).connect()
    rows = tuple(OffsetDeleteRequestTopic("absent", (OffsetDeleteRequestPartition(index),)) for index in range(3))
    answer = await client.ask(ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest("g", rows))
    (topic,) = answer.topics
    assert [(row.partition_index, row.error_code) for row in topic.partitions] == [(0, 3), (1, 3), (2, 3)]


async def test_many_topics_are_described(start_node: Any) -> None:
    node = await started(start_node)
    asked = tuple(MetadataRequestTopic(name=name) for name in (*NAMES, "t"))
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    answer = await node.answer_beside_others(ApiKey.METADATA, 9, request)
    assert [(row.name, row.error_code) for row in answer.topics] == [*((name, 3) for name in NAMES), ("t", 0)]


async def test_all_of_many_topics_are_described(node: Any) -> None:
    names = [f"t{number:04d}" for number in range(3 * TURN_THINGS)]
    for name in reversed(names):
        await node.create_topic(name)
    answer = await node.answer_beside_others(ApiKey.METADATA, 9, MetadataRequest(topics=None))
    assert [(row.name, len(row.partitions)) for row in answer.topics] == [(name, 1) for name in names]


async def test_many_topics_are_described_with_their_partitions(start_node: Any) -> None:
    node = await started(start_node)
    asked = tuple(DescribeTopicPartitionsTopicRequest(name) for name in (*NAMES, "t"))
    request = DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=2000, cursor=None)
    answer = await node.answer_beside_others(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
    assert [(row.name, row.error_code) for row in answer.topics] == [*((name, 3) for name in NAMES), ("t", 0)]
    assert len(answer.topics[-1].partitions) == 2


async def test_many_producers_are_described(start_node: Any) -> None:
    node = await started(start_node)
    state = node.node.broker.partitions.find("t", 0).log.producer_state
    for producer_id in range(COUNT):
        state.update(producer_id, 0, 0, producer_id, 0, 5, 0)
    request = DescribeProducersRequest(topics=(DescribeProducersTopic("t", (0, 1)),))
    answer = await node.answer_beside_others(ApiKey.DESCRIBE_PRODUCERS, 0, request)
    found = [[row.producer_id for row in part.active_producers] for part in answer.topics[0].partitions]
    assert found == [list(range(COUNT)), []]
