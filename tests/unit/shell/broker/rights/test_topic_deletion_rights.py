"""The rights to delete a topic, by its name and by its id. Responses and effects are those of Apache Kafka 4.4.0."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.shell.network.rights import DELETE_CLUSTER, DELETE_TOPIC, DESCRIBE_TOPIC, Right
from moldau.types import ZERO_UUID
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.authorizers import AllBut

pytestmark = pytest.mark.asyncio

T = "t"
BY_NAME, BY_ID, BOTH, MISSING = "by name", "by id", "both", "missing"
NO_DELETE, NO_DESCRIBE = (DELETE_TOPIC, DELETE_CLUSTER), (DESCRIBE_TOPIC, DELETE_CLUSTER)
NEITHER = (DELETE_TOPIC, DESCRIBE_TOPIC, DELETE_CLUSTER)


async def delete(start_node: Any, denied: tuple[Right, ...], *ways: str) -> tuple[list[tuple[Any, str, int]], bool]:
    """(name, what id, error code) of each response, and whether the topic still exists."""
    node = await start_node()
    await node.create_topic(T)
    topic_id = node.node.broker.image.topics_by_name[T].topic_id
    states = {
        BY_NAME: DeleteTopicState(name=T),
        BY_ID: DeleteTopicState(name=None, topic_id=topic_id),
        BOTH: DeleteTopicState(name=T, topic_id=topic_id),
        MISSING: DeleteTopicState(name="missing"),
    }
    node.node.dispatcher.authorizer = AllBut(*denied)
    request = DeleteTopicsRequest(topics=tuple(states[way] for way in ways), timeout_ms=5_000)
    answer = await node.connect().ask(ApiKey.DELETE_TOPICS, 6, request)
    ids = {ZERO_UUID: "", topic_id: "its id"}
    rows = [(row.name, ids[row.topic_id], row.error_code) for row in answer.responses]
    return rows, T in node.node.broker.image.topics_by_name


@pytest.mark.parametrize("denied", [NO_DELETE, NO_DESCRIBE, NEITHER])
async def test_a_name_takes_both_rights(start_node: Any, denied: tuple[Right, ...]) -> None:
    assert await delete(start_node, denied, BY_NAME) == ([(T, "", 29)], True)


@pytest.mark.parametrize("way", [BY_NAME, BY_ID])
async def test_the_right_to_delete_from_the_cluster_needs_none_to_the_topic(start_node: Any, way: str) -> None:
    told, is_there = await delete(start_node, (DELETE_TOPIC, DESCRIBE_TOPIC), way)
    assert [code for _, _, code in told] == [0]
    assert not is_there


async def test_an_id_takes_the_right_to_delete_alone(start_node: Any) -> None:
    assert await delete(start_node, NO_DESCRIBE, BY_ID) == ([(T, "its id", 0)], False)
    assert await delete(start_node, NO_DELETE, BY_ID) == ([(T, "its id", 29)], True)


async def test_an_id_tells_no_name_to_who_may_not_describe(start_node: Any) -> None:
    assert await delete(start_node, NEITHER, BY_ID) == ([(None, "its id", 29)], True)


async def test_a_missing_topic_is_told_only_to_who_may_describe(start_node: Any) -> None:
    assert await delete(start_node, NO_DELETE, MISSING) == ([("missing", "", 3)], True)
    assert await delete(start_node, NO_DESCRIBE, MISSING) == ([("missing", "", 29)], True)


async def test_what_is_wrong_with_the_request_is_told_to_everybody(start_node: Any) -> None:
    assert await delete(start_node, NEITHER, BOTH) == ([(T, "its id", 42)], True)
    assert await delete(start_node, NEITHER, BY_NAME, BY_NAME) == ([(T, "", 42)], True)


async def test_no_mixture_of_ways_deletes_without_the_right(start_node: Any) -> None:
    rows, is_there = await delete(start_node, NEITHER, BOTH, BY_NAME, BY_ID)
    assert (sorted(code for _, _, code in rows), is_there) == ([29, 29, 42], True)


async def test_one_topic_by_name_and_by_id_is_not_deleted(start_node: Any) -> None:
    assert await delete(start_node, (), BY_NAME, BY_ID) == ([(T, "its id", 42)], True)
    rows, is_there = await delete(start_node, NO_DESCRIBE, BY_NAME, BY_ID)
    assert (sorted(rows), is_there) == ([(T, "", 29), (T, "its id", 0)], False)
