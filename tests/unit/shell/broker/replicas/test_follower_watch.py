"""A follower of many partitions gets the changes, at a cost of the changes only; and the rest soon enough."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moldau.errors import ERROR_CODES
from moldau.types import LeaderEpoch
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from tests.support.brokers import Brokers, run_brokers
from tests.support.node import BROKER_EPOCH, produce, register, tell

FOLLOWER = 7
COUNT = 50


async def led_here(start_node: Any, *, is_in_sync: bool = True) -> Any:
    """Topic t with 50 partitions, led here; broker 7 holds the other replicas."""
    node = await start_node()
    await node.create_topic("t", COUNT)
    us, broker = node.node.node_id, node.node.broker
    register(node, FOLLOWER)
    for index in range(COUNT):
        old = broker.image.topics_by_name["t"].partitions[index]
        isr = (us, FOLLOWER) if is_in_sync else (us,)
        image = type(old)((us, FOLLOWER), isr, us, LeaderEpoch(5), old.partition_epoch + 1)
        tell(node, image, index=index)
    return node


def follow(node: Any, positions: dict[int, int], session: tuple[int, int], **fields: Any) -> FetchRequest:
    topic_id = node.node.broker.image.topic_id("t")
    rows = tuple(FetchPartition(index, 5, offset, partition_max_bytes=1 << 20) for index, offset in positions.items())
    return FetchRequest(
        replica_state=ReplicaState(FOLLOWER, BROKER_EPOCH),
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=(FetchTopic(topic_id=topic_id, partitions=rows),) if rows else (),
        **fields,
    )


async def with_session(node: Any) -> tuple[Any, int]:
    """A follower whose session holds all partitions, at its second request: its connection, and the session's id."""
    client = node.connect()
    opened = await client.ask(ApiKey.FETCH, 17, follow(node, dict.fromkeys(range(COUNT), 0), (0, 0)))
    await client.ask(ApiKey.FETCH, 17, follow(node, {}, (opened.session_id, 1)))
    return client, opened.session_id


async def with_parked_fetch(node: Any) -> Any:
    """As `with_session`: the connection, whose third request waits."""
    follower, session_id = await with_session(node)
    follower.send(ApiKey.FETCH, 17, follow(node, {}, (session_id, 2), max_wait_ms=60_000))
    await node.turns(5)
    return follower


def looks(node: Any) -> list[int]:
    """How often each partition was looked at."""
    hosted = node.node.broker.partitions.by_name[b"t"]
    return [hosted.partitions[index].fetch_requests for index in range(COUNT)]


@pytest.mark.asyncio
async def test_a_request_costs_what_it_names_and_what_changed(start_node: Any) -> None:
    node = await led_here(start_node)
    follower, session_id = await with_session(node)
    await node.connect().ask(ApiKey.PRODUCE, 9, produce(b"a", partition=3, acks=1))
    await node.turns(5)
    before = looks(node)
    answer = await follower.ask(ApiKey.FETCH, 17, follow(node, {}, (session_id, 2)))
    assert [row.partition_index for topic in answer.responses for row in topic.partitions] == [3]
    await follower.ask(ApiKey.FETCH, 17, follow(node, {3: 1}, (session_id, 3)))
    assert [index for index in range(COUNT) if looks(node)[index] > before[index]] == [3]
    assert node.node.broker.partitions.find("t", 3).high_watermark == 1


@pytest.mark.asyncio
async def test_all_partitions_are_checked_once_a_returned_broker_may_be_in_sync(start_node: Any) -> None:
    """It fetches before its fence is lifted, and no record may be written since: otherwise it would join seconds
    later."""
    node = await led_here(start_node, is_in_sync=False)
    register(node, FOLLOWER, is_fenced=True)
    follower, session_id = await with_session(node)
    before = looks(node)
    await follower.ask(ApiKey.FETCH, 17, follow(node, {}, (session_id, 2)))
    assert looks(node) == before
    register(node, FOLLOWER)
    await follower.ask(ApiKey.FETCH, 17, follow(node, {}, (session_id, 3)))
    assert looks(node) == [count + 1 for count in before]


@pytest.mark.asyncio
async def test_who_waits_is_woken_by_any_partition_of_its_session(start_node: Any) -> None:
    node = await led_here(start_node)
    follower, session_id = await with_session(node)
    for epoch, index in ((2, 10), (3, 20)):
        follower.send(ApiKey.FETCH, 17, follow(node, {}, (session_id, epoch), max_wait_ms=60_000))
        await node.turns(5)
        assert follower.answers() == []
        await node.connect().ask(ApiKey.PRODUCE, 9, produce(b"a", partition=index, acks=1))
        answer = await follower.answer()
        assert [row.partition_index for topic in answer.responses for row in topic.partitions] == [index]


@pytest.mark.asyncio
async def test_changes_that_bring_nothing_to_read_cost_no_look_of_who_waits(start_node: Any) -> None:
    """As when a topic of thousands of partitions is created: a look at all changed partitions, for each change, took
    seconds."""
    node = await led_here(start_node)
    follower = await with_parked_fetch(node)
    before = looks(node)
    for index in range(COUNT):
        # as the first fetch of another follower reports
        node.node.broker.partition_appended(node.node.broker.partitions.find("t", index))
    await node.turns(5)
    assert follower.answers() == []
    assert looks(node) == before
    await node.connect().ask(ApiKey.PRODUCE, 9, produce(b"a", partition=20, acks=1))
    assert [row.partition_index for topic in (await follower.answer()).responses for row in topic.partitions] == [20]


@pytest.mark.asyncio
async def test_who_waits_learns_that_the_leader_is_of_a_later_epoch_now(start_node: Any) -> None:
    node = await led_here(start_node)
    follower = await with_parked_fetch(node)
    us = node.node.node_id
    old = node.node.broker.image.topics_by_name["t"].partitions[7]
    tell(node, type(old)((us, FOLLOWER), (us, FOLLOWER), us, LeaderEpoch(6), old.partition_epoch + 1), index=7)
    (row,) = [row for topic in (await follower.answer()).responses for row in topic.partitions]
    assert (row.partition_index, row.error_code) == (7, ERROR_CODES["FENCED_LEADER_EPOCH"])


@pytest.mark.asyncio
async def test_what_came_between_two_requests_is_told_with_the_next(start_node: Any) -> None:
    node = await led_here(start_node)
    follower, session_id = await with_session(node)
    for index in (4, 2):
        await node.connect().ask(ApiKey.PRODUCE, 9, produce(b"a", partition=index, acks=1))
    await node.turns(5)
    answer = await follower.ask(ApiKey.FETCH, 17, follow(node, {}, (session_id, 2), max_wait_ms=60_000))
    assert sorted(row.partition_index for topic in answer.responses for row in topic.partitions) == [2, 4]


@pytest.mark.asyncio
@pytest.mark.parametrize("first_epoch", [1, 2])
async def test_what_did_not_fit_into_an_answer_is_in_the_next(start_node: Any, first_epoch: int) -> None:
    """The first incremental answer of the session included."""
    node = await led_here(start_node)
    follower = node.connect()
    opened = await follower.ask(ApiKey.FETCH, 17, follow(node, dict.fromkeys(range(COUNT), 0), (0, 0)))
    session_id = opened.session_id
    for epoch in range(1, first_epoch):
        await follower.ask(ApiKey.FETCH, 17, follow(node, {}, (session_id, epoch)))
    for index in (4, 2):
        await node.connect().ask(ApiKey.PRODUCE, 9, produce(bytes(2_000), partition=index, acks=1))
    found = []
    for epoch in (first_epoch, first_epoch + 1):
        request = follow(node, {}, (session_id, epoch), max_wait_ms=60_000, max_bytes=100)
        answer = await follower.ask(ApiKey.FETCH, 17, request)
        found += [row.partition_index for topic in answer.responses for row in topic.partitions if row.records]
    assert sorted(found) == [2, 4]


@pytest.mark.asyncio
async def test_a_session_that_ends_and_a_partition_that_is_forgotten_leave_nothing_behind(start_node: Any) -> None:
    node = await led_here(start_node)
    follower, session_id = await with_session(node)
    waiters = node.node.broker.waits.by_number
    assert len(waiters) == COUNT
    topic_id = node.node.broker.image.topic_id("t")
    forgotten = (ForgottenTopic(topic_id=topic_id, partitions=(9,)),)
    await follower.ask(ApiKey.FETCH, 17, follow(node, {}, (session_id, 2), forgotten_topics_data=forgotten))
    await node.connect().ask(ApiKey.PRODUCE, 9, produce(b"a", partition=9, acks=1))
    await node.turns(5)
    assert len(waiters) == COUNT - 1
    await follower.ask(ApiKey.FETCH, 17, follow(node, {}, (session_id, -1)))
    assert waiters == {}


# next to a busy partition, whose fetches never wait


async def keep_busy(brokers: Brokers, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """Topics t, which is written to all the time, and u, both led by broker 1 and followed by broker 2."""
    for name in ("t", "u"):
        brokers.controller.create_topic(name, (1, 2))
    await brokers.until(lambda: all(one.has_topic("u") for one in brokers.machines.values()), "the topics are there")
    for _ in range(3):
        assert await brokers.produce(1, b"x", topic="u") == 0

    async def write() -> None:
        while True:
            assert await brokers.produce(1, b"x", topic="t", by="busy") == 0

    writing = asyncio.ensure_future(write())
    await brokers.pass_time(2)
    await meanwhile()
    writing.cancel()


def test_a_follower_of_a_quiet_partition_comes_back_into_the_replicas_in_sync() -> None:
    async def story(brokers: Brokers) -> None:
        async def meanwhile() -> None:
            brokers.controller.change("u", isr=(1,))
            began_s = asyncio.get_running_loop().time()
            await brokers.until(lambda: brokers.is_joined("u"), "u is whole")
            assert asyncio.get_running_loop().time() - began_s < 2

        await keep_busy(brokers, meanwhile)

    run_brokers(story)


def test_deleted_records_of_a_quiet_partition_are_gone_from_all_replicas_soon() -> None:
    async def story(brokers: Brokers) -> None:
        async def meanwhile() -> None:
            topic = DeleteRecordsTopic("u", (DeleteRecordsPartition(0, 2),))
            answer = await brokers.peer(1, "admin").request(DeleteRecordsRequest((topic,), 5_000), 60_000)
            assert [row.error_code for row in answer.topics[0].partitions] == [0]
            assert brokers.machines[2].replica("u").log.log_start_offset == 2

        await keep_busy(brokers, meanwhile)

    run_brokers(story)


def test_a_quiet_partition_stays_in_sync_while_another_is_busy() -> None:
    async def story(brokers: Brokers) -> None:
        async def meanwhile() -> None:
            await brokers.pass_time(5)  # replica.lag.time.max.ms is 1 s here
            assert await brokers.produce(1, b"x", topic="u") == 0
            assert brokers.controller.partition("u").partition_epoch == 0

        await keep_busy(brokers, meanwhile)

    run_brokers(story)
