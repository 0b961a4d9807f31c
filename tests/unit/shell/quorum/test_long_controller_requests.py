"""A controller request that names many is processed with pauses; other requests wait for it, and see its result."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from moldau.errors import KafkaError
from moldau.shell.network.pauses import TURN_THINGS
from moldau.shell.quorum.role import QuorumRole
from moldau.wire.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.wire.protocol.messages.partitions import CreatePartitionsRequest, CreatePartitionsTopic
from moldau.wire.protocol.messages.producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from moldau.wire.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.quorum import NODE, GatedWorkers, Node, codes, create, stop, turn

pytestmark = pytest.mark.asyncio

COUNT = 5 * TURN_THINGS
NAMES = tuple(f"t{number:04d}" for number in range(COUNT))
TOPIC = 2


async def turns_of(role: QuorumRole, request: object) -> tuple[int, object]:
    """The turns of the loop until `request` was answered, and the response."""
    asked = asyncio.ensure_future(role.submit(request))  # type: ignore[arg-type]
    count = 0
    while not asked.done():
        await turn()
        count += 1
    return count, asked.result()


async def test_the_loop_turns_while_many_things_are_written() -> None:
    role = await Node().start_with_broker()
    few, _ = await turns_of(role, create("few"))
    setting = (IncrementalAlterableConfig(name="retention.ms", config_operation=0, value="77"),)
    resources = tuple(
        IncrementalAlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=setting) for name in NAMES
    )
    for request in (
        create(*NAMES),
        create("wide", partitions=COUNT),
        CreatePartitionsRequest((CreatePartitionsTopic("few", COUNT, None),), 1_000),
        IncrementalAlterConfigsRequest(resources),
        DeleteTopicsRequest(topics=tuple(DeleteTopicState(name) for name in NAMES), timeout_ms=1_000),
    ):
        many, _ = await turns_of(role, request)
        assert many > few + COUNT // TURN_THINGS
    assert list(role.image.topics_by_name) == ["few", "wide"]
    assert [len(topic.partitions) for topic in role.image.topics_by_id.values()] == [COUNT, COUNT]
    await stop(role)


async def test_what_is_asked_meanwhile_waits_and_sees_what_was_done() -> None:
    node = Node()
    role = await node.start_with_broker()
    long = asyncio.ensure_future(codes(role, create(*NAMES)))
    await turn()
    again = asyncio.ensure_future(codes(role, create(NAMES[-1], "new")))
    block = asyncio.ensure_future(role.submit(AllocateProducerIdsRequest(NODE, node.broker_epoch)))
    await turn()
    assert not again.done()
    assert await long == [0] * COUNT
    assert await again == [36, 0]
    assert isinstance(await block, AllocateProducerIdsResponse)
    await stop(role)


async def test_a_stop_waits_for_what_is_being_written() -> None:
    node = Node()
    role = await node.start_with_broker()
    long = asyncio.ensure_future(codes(role, create(*NAMES)))
    late = asyncio.ensure_future(codes(role, create("late")))
    await turn()
    await stop(role)
    assert await long == [0] * COUNT
    assert await late == [0]
    again = await node.start()
    assert len(again.image.topics_by_name) == COUNT + 1
    await stop(again)


async def test_a_crash_leaves_all_of_a_long_request_or_nothing() -> None:
    for turns in range(1, 40, 3):
        node = Node()
        role = await node.start_with_broker()
        asked = asyncio.ensure_future(codes(role, create(*NAMES)))
        for _ in range(turns):
            await turn()
        role.abort()
        await asyncio.wait([asked])
        role = await node.start()
        assert len(role.image.topics_by_name) in (0, COUNT)
        await stop(role)


async def test_a_mistake_of_ours_behind_a_pause_is_told_and_the_next_request_goes_on() -> None:
    role = await Node().start_with_broker()
    no_name = cast(str, 0)
    long = asyncio.ensure_future(codes(role, create(*NAMES, no_name)))
    await turn()
    next_one = asyncio.ensure_future(codes(role, create("next")))
    assert not long.done()
    await asyncio.wait([long])
    error = long.exception()
    assert isinstance(error, KafkaError)
    assert error.code == -1
    assert await next_one == [0]
    assert list(role.image.topics_by_name) == ["next"]
    await stop(role)


async def test_a_long_request_that_is_refused_leaves_nothing() -> None:
    role = await Node().start_with_broker()
    too_many = tuple(f"n{number}" for number in range(10_001))
    assert await codes(role, create(*too_many)) == [44] * len(too_many)
    assert not role.image.topics_by_name
    role.abort()
    with pytest.raises(KafkaError):
        await role.submit(create("t"))


@pytest.mark.parametrize("turns", range(1, 24))
async def test_a_flush_during_a_long_request_answers_only_earlier_requests(turns: int) -> None:
    workers = GatedWorkers()
    workers.gate.set()
    role = await Node().start_with_broker(workers)
    told: list[list[str]] = []
    role.subscribe(lambda image, _: told.append(list(image.topics_by_name)))
    told.clear()
    workers.gate.clear()
    before = asyncio.ensure_future(codes(role, create("before")))
    await turn()
    long = asyncio.ensure_future(codes(role, create(*NAMES)))
    for _ in range(turns):
        await turn()
    assert not before.done()
    workers.gate.set()
    assert await before == [0]
    assert await long == [0] * COUNT
    assert told[-1] == ["before", *NAMES]
    assert [len(names) for names in told] in ([1, 1 + COUNT], [1 + COUNT])
    assert await codes(role, create("before", "behind")) == [36, 0]
    await stop(role)
