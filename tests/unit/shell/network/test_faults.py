"""What a fault plan does to a request: each fault on a live connection, and what comes behind it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.shell.network.context import RequestContext
from moldau.shell.network.faults import Delay, Disconnect, Drop, Fault, Replace
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest


class Once:
    """One fault, for the first request of one API."""

    def __init__(self, api_name: str, fault: Fault) -> None:
        self.api_name = api_name
        self.fault = fault
        self.asked: list[tuple[str, int, str]] = []

    def consult(self, context: RequestContext, api_name: str) -> Fault | None:
        self.asked.append((api_name, context.api_version, context.client_id))
        if api_name != self.api_name:
            return None
        self.api_name = ""
        return self.fault


METADATA = (ApiKey.METADATA, 9, MetadataRequest(topics=()))
VERSIONS = (ApiKey.API_VERSIONS, 0, ApiVersionsRequest())


@pytest.mark.asyncio
async def test_a_plan_is_asked_for_every_request(start_node: Any) -> None:
    node = await start_node()
    plan = node.node.dispatcher.faults = Once("FETCH", Drop())
    client = node.connect()
    client.send(*METADATA)
    client.send(*VERSIONS)
    assert plan.asked == [("METADATA", 9, "test"), ("API_VERSIONS", 0, "test")]
    assert len(client.answers()) == 2


@pytest.mark.asyncio
async def test_a_dropped_request_is_never_answered_and_holds_up_what_follows(start_node: Any) -> None:
    node = await start_node()
    node.node.dispatcher.faults = Once("METADATA", Drop())
    client = node.connect()
    client.send(*METADATA)
    client.send(*VERSIONS)
    await node.turns(20)
    assert client.answers() == []
    assert not client.wire.is_closed
    other = node.connect()
    other.send(*METADATA)
    assert len(other.answers()) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("is_handled", [False, True])
async def test_a_disconnect_loses_the_answer_but_not_what_was_handled(start_node: Any, is_handled: bool) -> None:
    node = await start_node()
    node.node.dispatcher.faults = Once("CREATE_TOPICS", Disconnect(is_handled))
    client = node.connect()
    topic = CreatableTopic("topic", num_partitions=1, replication_factor=1)
    client.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=(topic,), timeout_ms=1_000))
    await node.turns(50)
    assert client.wire.is_closed
    assert client.answers() == []
    assert ("topic" in node.node.broker.image.topics_by_name) is is_handled


@pytest.mark.asyncio
async def test_a_delayed_request_is_handled_later_and_in_order(start_node: Any) -> None:
    node = await start_node()
    gate = asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    node.node.dispatcher.faults = Once("METADATA", Delay(wait))
    client = node.connect()
    client.feed(client.request(*METADATA) + client.request(*VERSIONS))
    await node.turns(20)
    assert client.answers() == []
    gate.set()
    await node.turns(20)
    kinds = [type(answer).__name__ for answer in client.answers()]
    assert kinds == ["MetadataResponse", "ApiVersionsResponse"]


@pytest.mark.asyncio
async def test_an_answer_is_replaced(start_node: Any) -> None:
    node = await start_node()
    dispatcher = node.node.dispatcher

    def refuse(context: RequestContext, frame: memoryview, position: int) -> bytes | None:
        answer: bytes | None = dispatcher.encode(context, ApiVersionsResponse(error_code=42))
        return answer

    dispatcher.faults = Once("API_VERSIONS", Replace(refuse))
    client = node.connect()
    client.send(*VERSIONS)
    client.send(*VERSIONS)
    assert [answer.error_code for answer in client.answers()] == [42, 0]
