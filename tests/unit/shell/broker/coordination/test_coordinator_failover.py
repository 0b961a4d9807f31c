"""Coordinators move with the leadership of their partition: no acknowledged change is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.core.config.topic_settings import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from moldau.core.metadata.image import NO_LEADER, ConfigResource, MetadataDelta, ResourceType
from moldau.errors import ERROR_CODES
from moldau.types import Uuid
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.groups_classic import ListGroupsRequest
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.transactions import EndTxnRequest, ListTransactionsRequest
from moldau.wire.records.batch import iterate_batches
from tests.support.brokers import Brokers, run_brokers
from tests.support.stories import run_by

NOT_COORDINATOR = ERROR_CODES["NOT_COORDINATOR"]
RETENTION_S, CHECK_S = 60, 5


async def with_topics(brokers: Brokers, coordinators: tuple[int, ...] = (1, 2, 3)) -> None:
    """Broker 1 coordinates transactions, 2 leads topic t, 3 coordinates groups. All brokers hold all partitions, except
    those that only the `coordinators` of transactions hold."""
    brokers.controller.create_topic(TRANSACTION_STATE_TOPIC, coordinators, cleanup_policy="compact")
    brokers.controller.create_topic("t", (2, 3, 1))
    brokers.controller.create_topic(OFFSETS_TOPIC, (3, 1, 2), cleanup_policy="compact")
    await brokers.until(lambda: all(one.has_topic(OFFSETS_TOPIC) for one in brokers.machines.values()))


async def commit(brokers: Brokers, broker_id: int, offset: int) -> int:
    partition = OffsetCommitRequestPartition(0, offset)
    topic = OffsetCommitRequestTopic("t", brokers.controller.image.topic_id("t"), (partition,))
    answer = await brokers.ask(broker_id, OffsetCommitRequest("g", topics=(topic,)))
    return answer.topics[0].partitions[0].error_code


async def committed(brokers: Brokers, broker_id: int) -> tuple[int, list[int]]:
    """The error code and group g's committed offset."""
    answer = await brokers.ask(broker_id, OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g", topics=None),)))
    (group,) = answer.groups
    return group.error_code, [row.committed_offset for topic in group.topics for row in topic.partitions]


async def read_committed(brokers: Brokers, broker_id: int) -> tuple[int, list[int]]:
    """The last stable offset, and the base offsets of readable batches."""
    partition = FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic_id=Uuid(brokers.controller.image.topic_id("t")), partitions=(partition,))
    answer = await brokers.ask(broker_id, FetchRequest(isolation_level=1, topics=(topic,), max_bytes=1 << 20))
    row = answer.responses[0].partitions[0]
    assert row.error_code == 0
    return row.last_stable_offset, [header.base_offset for _, header in iterate_batches(row.records or b"")]


@run_by(run_brokers, count=3)
async def test_only_the_leader_of_its_partition_coordinates_a_group(brokers: Brokers) -> None:
    await with_topics(brokers)
    assert [await commit(brokers, one, 5) for one in (1, 2, 3)] == [NOT_COORDINATOR, NOT_COORDINATOR, 0]
    assert await committed(brokers, 3) == (0, [5])
    assert await committed(brokers, 1) == (NOT_COORDINATOR, [])


@run_by(run_brokers, count=3)
async def test_the_next_coordinator_has_the_commits_and_the_last_one_loads_them_again(brokers: Brokers) -> None:
    await with_topics(brokers)
    assert await commit(brokers, 3, 5) == 0
    brokers.machines[3].kill("process")
    brokers.controller.fence(3)
    await brokers.until(lambda: brokers.machines[1].leads(OFFSETS_TOPIC))
    assert await committed(brokers, 1) == (0, [5])
    assert await commit(brokers, 1, 8) == 0
    await brokers.machines[3].start()
    await brokers.until(lambda: brokers.is_whole(OFFSETS_TOPIC))
    brokers.controller.change(OFFSETS_TOPIC, leader=brokers.machines[3].replica(OFFSETS_TOPIC).replica.broker_id)
    await brokers.until(lambda: brokers.machines[3].leads(OFFSETS_TOPIC))
    await brokers.until(lambda: not brokers.machines[1].leads(OFFSETS_TOPIC))
    assert await committed(brokers, 3) == (0, [8])
    assert await committed(brokers, 1) == (NOT_COORDINATOR, [])
    brokers.controller.change(OFFSETS_TOPIC, leader=brokers.machines[1].replica(OFFSETS_TOPIC).replica.broker_id)
    await brokers.until(lambda: brokers.machines[1].leads(OFFSETS_TOPIC))
    assert await committed(brokers, 1) == (0, [8])


async def with_open_transaction(brokers: Brokers, coordinators: tuple[int, ...] = (1, 2, 3)) -> tuple[int, int]:
    """Of transactions v2; gives the producer id and epoch."""
    await with_topics(brokers, coordinators)
    end_offset = brokers.controller.image.end_offset
    brokers.controller.publish(MetadataDelta(end_offset=end_offset, features={"transaction.version": 2}))
    await brokers.pass_time(0.1)
    producer = await brokers.ask(1, InitProducerIdRequest("x", 60_000))
    assert producer.error_code == 0
    ids = producer.producer_id, producer.producer_epoch
    code = await brokers.produce(
        2, b"a", by="x", transactional_id="x",
        producer_id=ids[0], producer_epoch=ids[1], base_sequence=0, is_transactional=True,
    )  # fmt: skip
    assert code == 0
    return ids


@run_by(run_brokers, count=3)
async def test_a_transaction_goes_over_three_brokers(brokers: Brokers) -> None:
    ids = await with_open_transaction(brokers)
    assert await read_committed(brokers, 2) == (0, [])
    assert (await brokers.ask(1, EndTxnRequest("x", *ids, committed=True))).error_code == 0
    await brokers.until(lambda: brokers.machines[2].replica().last_stable_offset == 2, "the marker is there")
    assert await read_committed(brokers, 2) == (2, [0, 1])
    await brokers.until(brokers.is_whole)


@run_by(run_brokers, count=3)
async def test_what_a_dead_coordinator_had_decided_the_next_one_ends(brokers: Brokers) -> None:
    ids = await with_open_transaction(brokers)
    brokers.machines[2].stand_still()
    assert (await brokers.ask(1, EndTxnRequest("x", *ids, committed=True))).error_code == 0
    brokers.machines[1].kill("process")
    brokers.controller.fence(1)
    brokers.machines[2].go_on()
    await brokers.until(lambda: brokers.machines[2].replica().last_stable_offset == 2, "the marker is there")
    assert await read_committed(brokers, 2) == (2, [0, 1])


@run_by(run_brokers, count=3)
async def test_a_restarted_single_coordinator_ends_old_transactions_without_a_request(brokers: Brokers) -> None:
    await with_open_transaction(brokers, coordinators=(1,))
    brokers.machines[1].kill("process")
    brokers.controller.fence(1)
    await brokers.machines[1].start()
    # as when it is unfenced and elected again, some time after its start
    brokers.controller.change(TRANSACTION_STATE_TOPIC, leader=NO_LEADER)
    brokers.controller.change(TRANSACTION_STATE_TOPIC, leader=1)
    await brokers.pass_time(90)  # the transaction may take 60 s
    await brokers.until(lambda: brokers.machines[2].replica().last_stable_offset == 2, "the marker is there")


@run_by(run_brokers, count=3)
async def test_a_coordinator_that_was_just_elected_tells_nothing_that_may_be_lost_with_it(brokers: Brokers) -> None:
    """Broker 1 leads with a committed offset that broker 2, also in sync, has not fetched yet."""
    await with_topics(brokers)
    assert await commit(brokers, 3, 5) == 0
    await brokers.until(lambda: brokers.is_whole(OFFSETS_TOPIC))
    brokers.machines[2].stand_still()
    unanswered = asyncio.create_task(commit(brokers, 3, 8))
    ends = [brokers.machines[one].replica(OFFSETS_TOPIC) for one in (1, 3)]
    committed_before = ends[1].high_watermark
    await brokers.until(lambda: ends[0].log.log_end_offset == ends[1].log.log_end_offset > committed_before)
    brokers.controller.change(OFFSETS_TOPIC, leader=1)
    await brokers.until(lambda: brokers.machines[1].leads(OFFSETS_TOPIC))
    assert await unanswered == NOT_COORDINATOR
    asked = asyncio.create_task(committed(brokers, 1))
    await brokers.pass_time(1.0)
    assert not asked.done()
    brokers.machines[2].go_on()
    assert await asked == (0, [8])


@pytest.mark.parametrize(
    ("topic", "coordinator", "request_of_list"),
    [(OFFSETS_TOPIC, 3, ListGroupsRequest()), (TRANSACTION_STATE_TOPIC, 1, ListTransactionsRequest())],
    ids=["groups", "transactions"],
)
@run_by(run_brokers, count=3)
async def test_what_went_to_another_coordinator_while_a_list_was_made_is_left_out(
    brokers: Brokers, *, topic: str, coordinator: int, request_of_list: Any
) -> None:
    """The list depends on a record that broker 2, also in sync, has not fetched yet."""

    async def write() -> None:
        await (brokers.ask(1, InitProducerIdRequest("x", 60_000)) if coordinator == 1 else commit(brokers, 3, 8))

    await with_topics(brokers)
    await write()
    await brokers.until(lambda: brokers.is_whole(topic))
    brokers.machines[2].stand_still()
    replica = brokers.machines[coordinator].replica(topic)
    unanswered = asyncio.create_task(write())
    await brokers.until(lambda: replica.log.log_end_offset > replica.high_watermark)
    asked = asyncio.create_task(brokers.ask(coordinator, request_of_list))
    await brokers.pass_time(0.1)
    assert not asked.done()
    brokers.controller.change(topic, leader=4 - coordinator)
    answer = await asked
    assert answer.error_code == 0
    await unanswered


@run_by(run_brokers, count=3)
async def test_what_waits_for_a_replica_is_answered_once_fewer_need_be_in_sync(brokers: Brokers) -> None:
    await with_topics(brokers)
    await brokers.until(lambda: brokers.is_whole(OFFSETS_TOPIC))
    need_in_sync(brokers, 3)
    brokers.machines[2].stand_still()
    unanswered = asyncio.create_task(commit(brokers, 3, 8))
    await brokers.until(lambda: len(brokers.controller.partition(OFFSETS_TOPIC).isr) == 2)
    await brokers.pass_time(1.0)
    assert not unanswered.done()
    need_in_sync(brokers, 2)
    await brokers.pass_time(1.0)
    assert unanswered.done()
    assert await unanswered == 0


def need_in_sync(brokers: Brokers, replicas: int) -> None:
    """Sets min.insync.replicas of the groups' topic."""
    topic = ConfigResource(ResourceType.TOPIC, OFFSETS_TOPIC)
    configs = {**brokers.controller.image.topic_configs(OFFSETS_TOPIC), "min.insync.replicas": str(replicas)}
    brokers.controller.publish(MetadataDelta(end_offset=brokers.controller.image.end_offset, configs={topic: configs}))


def test_offsets_expire_at_an_elected_coordinator_without_a_request() -> None:
    """Broker 1 has looked for groups once, before its election."""

    async def story(brokers: Brokers) -> None:
        await with_topics(brokers)
        assert await committed(brokers, 1) == (NOT_COORDINATOR, [])
        assert await commit(brokers, 3, 5) == 0
        await brokers.pass_time(2 * CHECK_S)
        brokers.machines[3].kill("process")
        brokers.controller.fence(3)
        await brokers.until(lambda: brokers.machines[1].leads(OFFSETS_TOPIC))
        positions = brokers.machines[1].replica(OFFSETS_TOPIC).log
        before = positions.log_end_offset
        await brokers.pass_time(RETENTION_S + 2 * CHECK_S)
        assert positions.log_end_offset > before
        assert await committed(brokers, 1) == (0, [])

    settings = {
        "offsets.retention.minutes": str(RETENTION_S // 60),
        "offsets.retention.check.interval.ms": str(CHECK_S * 1000),
    }
    run_brokers(story, count=3, settings=settings)
