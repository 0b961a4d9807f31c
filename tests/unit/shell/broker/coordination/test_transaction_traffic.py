"""Many transactions at once: the brokers' requests for them are replicated together, not one after the other."""

from __future__ import annotations

import asyncio

import pytest

from moldau.core.config.topic_settings import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from moldau.core.metadata.image import MetadataDelta
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.brokers import Brokers, run_brokers
from tests.support.stories import run_by

COUNT = 20
SHORT_S = 0.5
"""Less than `replica.lag.time.max.ms`: a broker that is frozen for so long stays in sync."""


async def with_topics(brokers: Brokers, **replicas: tuple[int, ...]) -> None:
    for name, each in replicas.items():
        brokers.controller.create_topic(name, each)
    end_offset = brokers.controller.image.end_offset
    brokers.controller.publish(MetadataDelta(end_offset=end_offset, features={"transaction.version": 2}))
    await brokers.until(lambda: all(brokers.machines[each[0]].leads(name) for name, each in replicas.items()))
    await brokers.pass_time(0.1)


async def begin(brokers: Brokers, name: str) -> tuple[int, int]:
    """Producer id and epoch."""
    answer = await brokers.ask(1, InitProducerIdRequest(name, 60_000))
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("topic", ["t", OFFSETS_TOPIC])
@run_by(run_brokers)
async def test_all_markers_of_a_request_are_written_before_the_first_is_waited_for(
    brokers: Brokers, *, topic: str
) -> None:
    await with_topics(brokers, **{topic: (1, 2)})
    topics = (WritableTxnMarkerTopic(topic, (0,)),)
    markers = tuple(WritableTxnMarker(1 + number, 0, True, topics) for number in range(COUNT))
    brokers.machines[2].stand_still()
    asked = asyncio.ensure_future(brokers.ask(1, WriteTxnMarkersRequest(markers)))
    await brokers.pass_time(SHORT_S)
    assert brokers.machines[1].replica(topic).log.log_end_offset == COUNT
    assert not asked.done()
    brokers.machines[2].go_on()
    results = (await asked).markers
    assert [each.producer_id for each in results] == [each.producer_id for each in markers]
    assert {each.topics[0].partitions[0].error_code for each in results} == {0}


@run_by(run_brokers)
async def test_all_transactions_of_a_request_are_decided_before_the_first_is_waited_for(brokers: Brokers) -> None:
    await with_topics(brokers, t=(1,), **{TRANSACTION_STATE_TOPIC: (1, 2)})
    names = [f"x-{number}" for number in range(COUNT)]
    producers = {name: await begin(brokers, name) for name in names}
    topics = (AddPartitionsToTxnTopic("t", (0,)),)
    transactions = [AddPartitionsToTxnTransaction(name, *producers[name], False, topics) for name in names]
    # a repeated request after it sees it, though it is not replicated
    transactions.append(AddPartitionsToTxnTransaction(names[0], *producers[names[0]], True, topics))
    brokers.machines[2].stand_still()
    log = brokers.machines[1].replica(TRANSACTION_STATE_TOPIC).log
    begin_offset = log.log_end_offset
    asked = asyncio.ensure_future(brokers.ask(1, AddPartitionsToTxnRequest(tuple(transactions))))
    await brokers.pass_time(SHORT_S)
    assert log.log_end_offset == begin_offset + COUNT
    assert not asked.done()
    brokers.machines[2].go_on()
    results = (await asked).results_by_transaction
    assert [each.transactional_id for each in results] == [*names, names[0]]
    assert {each.topic_results[0].results_by_partition[0].partition_error_code for each in results} == {0}


async def replicate_once(brokers: Brokers, leader: int, topic: str, follower: int) -> None:
    """The follower fetches what the leader has by now, and freezes again."""
    replica = brokers.machines[leader].replica(topic)
    end_offset = replica.log.log_end_offset
    brokers.machines[follower].go_on()
    await brokers.until(lambda: replica.high_watermark >= end_offset)
    brokers.machines[follower].stand_still()
    await brokers.pass_time(SHORT_S)


@run_by(run_brokers, count=3)
async def test_markers_of_many_transactions_wait_twice_for_followers_of_another_broker(brokers: Brokers) -> None:
    """Broker 1 coordinates, 2 leads topic t, 3 follows it."""
    await with_topics(brokers, t=(2, 3), **{TRANSACTION_STATE_TOPIC: (1,)})
    names = [f"x-{number}" for number in range(COUNT)]
    producers = {name: await begin(brokers, name) for name in names}
    topics = (AddPartitionsToTxnTopic("t", (0,)),)
    transactions = tuple(AddPartitionsToTxnTransaction(name, *producers[name], False, topics) for name in names)
    await brokers.ask(1, AddPartitionsToTxnRequest(transactions))
    brokers.machines[3].stand_still()
    for name in names:
        assert (await brokers.ask(1, EndTxnRequest(name, *producers[name], committed=True))).error_code == 0
    log = brokers.machines[2].replica().log
    assert log.log_end_offset == 1
    await replicate_once(brokers, 2, "t", 3)
    assert log.log_end_offset == COUNT
    brokers.machines[3].go_on()
    await brokers.until(lambda: not brokers.machines[1].broker.coordination.transactions.markers.in_flight)
    assert log.log_end_offset == COUNT, "each once"


@run_by(run_brokers, count=3)
async def test_joining_many_transactions_waits_twice_for_followers_of_the_coordinator(brokers: Brokers) -> None:
    """Broker 1 coordinates, 2 leads topic t, 3 follows the coordinator."""
    await with_topics(brokers, t=(2,), **{TRANSACTION_STATE_TOPIC: (1, 3)})
    names = [f"x-{number}" for number in range(COUNT)]
    producers = {name: await begin(brokers, name) for name in names}
    brokers.machines[3].stand_still()
    log = brokers.machines[1].replica(TRANSACTION_STATE_TOPIC).log
    begin_offset = log.log_end_offset
    written = [
        asyncio.ensure_future(
            brokers.produce(
                2, b"a", by=name, transactional_id=name,
                producer_id=producers[name][0], producer_epoch=producers[name][1], base_sequence=0,
                is_transactional=True,
            )
        )
        for name in names
    ]  # fmt: skip
    await brokers.pass_time(SHORT_S)
    assert log.log_end_offset == begin_offset + 1
    await replicate_once(brokers, 1, TRANSACTION_STATE_TOPIC, 3)
    assert log.log_end_offset == begin_offset + COUNT
    brokers.machines[3].go_on()
    assert await asyncio.gather(*written) == [0] * COUNT
