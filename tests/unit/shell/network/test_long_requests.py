"""A long request is decoded, and a long response encoded, with pauses: other clients are served between them."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from moldau.shell.network.bounds import LONG_REQUESTS_BYTES, WORKED_BYTES, LongRequests
from moldau.shell.network.dispatch import LONG_FRAME_BYTES
from moldau.shell.network.long_frame import SPARE_BYTES
from moldau.shell.network.pauses import TURN_THINGS
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.groups_classic import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.records.builder import build_batch
from tests.support.node import NOW_MS, change

pytestmark = pytest.mark.asyncio

TURN_ELEMENTS = TURN_THINGS
COUNT = 64 * TURN_ELEMENTS
NAMES = tuple(f"absent-{number:04d}-of-a-request-that-is-long" for number in range(COUNT))
LONG = MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in NAMES), allow_auto_topic_creation=False)
SHORT = MetadataRequest(topics=())


async def test_others_are_served_while_a_long_request_is_decoded(node: Any) -> None:
    client, other = node.connect(), node.connect()
    client.send(ApiKey.METADATA, 9, LONG)
    for _ in range(COUNT // TURN_ELEMENTS):
        other.send(ApiKey.METADATA, 9, SHORT)
        assert len(other.answers()) == 1
        assert client.answers() == []
        await node.turns(1)
    answer = await client.answer()
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [(name, 3) for name in NAMES]


async def test_the_next_request_of_the_connection_begins_when_the_long_one_is_answered(node: Any, client: Any) -> None:
    client.feed(client.request(ApiKey.METADATA, 9, LONG) + client.request(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()))
    await node.turns(1)
    assert node.node.dispatcher.request_counts()["API_VERSIONS"] == 0
    answers: list[Any] = []
    while len(answers) < 2:
        await node.turns(1)
        answers += client.answers()
    assert len(answers[0].topics) == COUNT
    assert answers[1].api_keys


async def test_what_a_long_request_holds_is_counted_until_it_is_answered(node: Any) -> None:
    client, memory = node.connect(), node.node.connections.request_memory
    request = client.request(ApiKey.METADATA, 9, LONG)
    client.feed(request)
    await node.turns(1)
    assert memory.used_bytes >= (len(request) - 4) * WORKED_BYTES
    await client.answer()
    # decoded requests and sent responses are freed with pauses too
    await node.turns(3 * COUNT // TURN_ELEMENTS)
    assert memory.used_bytes == 0


async def test_long_requests_wait_for_those_that_fill_the_memory(node: Any) -> None:
    name = "x" * (LONG_REQUESTS_BYTES // WORKED_BYTES // COUNT)
    filling = MetadataRequest(topics=(MetadataRequestTopic(name=name),) * COUNT)
    clients = [node.connect() for _ in range(3)]
    for client in clients:
        client.send(ApiKey.METADATA, 9, filling)
    other = node.connect()
    order: list[int] = []
    while len(order) < 3:
        await node.turns(1)
        order += [place for place, client in enumerate(clients) if client.answers()]
        other.send(ApiKey.METADATA, 9, SHORT)
        assert len(other.answers()) == 1
    assert order == [0, 1, 2]


@pytest.mark.parametrize("kind", ["produce", "join"])
async def test_what_waits_for_others_with_large_values_keeps_no_long_request_waiting(node: Any, kind: str) -> None:
    await node.create_topic("t", cleanup_policy="compact")
    change(node, replicas=(1, 2), isr=(1, 2))  # the other broker does not run, and acknowledges nothing
    await node.connect().ask(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key="g"))
    value = random.Random(7).randbytes(900_000)
    batch = build_batch([(b"k", value, NOW_MS, ())], compression="gzip")
    data = TopicProduceData(name="t", partition_data=(PartitionProduceData(0, batch),))
    write = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=(data,))
    protocols = (JoinGroupRequestProtocol("range", value),)
    for number in range(2 * LONG_REQUESTS_BYTES // WORKED_BYTES // len(value)):
        client = node.connect()
        if kind == "produce":
            client.send(ApiKey.PRODUCE, 9, write)
        else:
            join = JoinGroupRequest(f"g{number}", 10_000, 10_000, protocol_type="consumer", protocols=protocols)
            client.send(ApiKey.JOIN_GROUP, 3, join)
        await node.turns(50)
        assert client.answers() == []
    assert len((await node.connect().ask(ApiKey.METADATA, 9, LONG)).topics) == COUNT


async def test_room_is_given_in_order_and_nobody_waits_for_ever() -> None:
    loop = asyncio.get_running_loop()
    rooms = LongRequests(loop, 10)
    await rooms.enter(100)
    first, second, third = (asyncio.ensure_future(rooms.enter(count)) for count in (8, 1, 5))
    await asyncio.sleep(0)
    rooms.leave(100)
    await asyncio.wait((first, second))
    assert rooms.used_bytes == 9
    third.cancel()
    await asyncio.wait((third,))
    rooms.leave(9)
    await rooms.enter(5)
    assert rooms.used_bytes == 5
    impatient = LongRequests(loop, 10, max_wait_s=0)
    await impatient.enter(10)
    await impatient.enter(10)
    assert impatient.used_bytes == 20


async def test_who_is_let_in_and_cancelled_before_it_goes_on_gives_its_room_back() -> None:
    rooms = LongRequests(asyncio.get_running_loop(), 10)
    await rooms.enter(10)
    waiting = asyncio.ensure_future(rooms.enter(4))
    await asyncio.sleep(0)
    rooms.leave(10)
    assert rooms.used_bytes == 4
    waiting.cancel()
    await asyncio.wait((waiting,))
    assert waiting.cancelled()
    assert rooms.used_bytes == 0


async def test_what_a_long_request_held_is_given_back_when_its_client_leaves(node: Any, client: Any) -> None:
    client.send(ApiKey.METADATA, 9, LONG)
    await node.turns(1)
    client.wire.close()
    await node.turns(10)
    assert node.node.connections.request_memory.used_bytes == 0
    assert client.answers() == []


@pytest.mark.parametrize("size", [LONG_FRAME_BYTES + 10_000, SPARE_BYTES + 10_000])
async def test_a_long_frame_that_is_cut_closes_its_connection(
    node: Any, client: Any, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    names = tuple(MetadataRequestTopic(name=f"{number:0200d}") for number in range(size // 200))
    whole = client.request(ApiKey.METADATA, 9, MetadataRequest(topics=names))
    client.feed(frame(whole[4:-20]))
    await node.turns(3 * len(names) // TURN_ELEMENTS + 3)
    assert client.wire.is_closed
    assert "Traceback" not in caplog.text
    assert node.node.connections.request_memory.used_bytes == 0


async def test_a_long_frame_with_little_in_it_is_answered_at_once(client: Any) -> None:
    name = "a" * (LONG_FRAME_BYTES + 1)
    client.send(ApiKey.METADATA, 9, MetadataRequest(topics=(MetadataRequestTopic(name=name),)))
    (answer,) = client.answers()
    assert [topic.error_code for topic in answer.topics] == [17]


async def test_a_frame_that_has_a_buffer_of_its_own_is_read_where_it_lies(client: Any) -> None:
    names = tuple(f"{number:0200d}" for number in range(SPARE_BYTES // 200 + 1))
    topics = tuple(MetadataRequestTopic(name=name) for name in names)
    client.send(ApiKey.METADATA, 9, MetadataRequest(topics=topics, allow_auto_topic_creation=False))
    answer = await client.answer()
    assert [topic.name for topic in answer.topics] == list(names)


async def test_a_long_answer_to_a_short_request_is_encoded_with_pauses(node: Any) -> None:
    await node.create_topic("wide", COUNT)
    client, other = node.connect(), node.connect()
    asked = client.request(ApiKey.METADATA, 9, MetadataRequest(topics=(MetadataRequestTopic(name="wide"),)))
    client.feed(asked + client.request(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()))
    assert client.answers() == []
    other.send(ApiKey.METADATA, 9, SHORT)
    assert len(other.answers()) == 1
    answers: list[Any] = []
    while len(answers) < 2:
        await node.turns(1)
        answers += client.answers()
    assert [partition.partition_index for partition in answers[0].topics[0].partitions] == list(range(COUNT))
    assert answers[1].api_keys
