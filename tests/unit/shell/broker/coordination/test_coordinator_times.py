"""The load times of coordinators, and their messages to leaders, in /metrics."""

from __future__ import annotations

import math
from typing import Any

import pytest

from moldau.errors import kafka_error
from moldau.shell.broker.coordination.times import LoadTimes, Verifications
from moldau.shell.node.metrics.groups import add_groups
from moldau.shell.node.metrics.table import TABLE
from moldau.shell.node.metrics.transactions import add_transactions
from moldau.transport.exposition import Samples
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.node import offset_commit, produce

pytestmark = pytest.mark.asyncio

SETTINGS = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
LOADS = "kafka_server_{}_coordinator_metrics_partition_load_time_{}"
VERIFICATIONS = "kafka_server_addpartitionstotxnmanager_"


async def shown(node: Any) -> dict[str, float]:
    """Name and labels to value, for groups and transactions."""
    out = Samples(TABLE)
    await add_groups(node.node.broker, out)
    await add_transactions(node.node.broker, out)
    lines = [line.rpartition(" ") for line in out.render().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


async def load_times(node: Any, kind: str) -> tuple[float, float]:
    found = await shown(node)
    return found[LOADS.format(kind, "avg")], found[LOADS.format(kind, "max")]


async def begun(node: Any) -> tuple[int, int]:
    """Producer id and epoch of `tx`, and an offset of the group `g`."""
    client = node.connect()
    for kind, key in enumerate(("g", "tx")):
        await client.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=key, key_type=kind))
    await client.ask(ApiKey.OFFSET_COMMIT, 8, offset_commit(1))
    answer = await client.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest("tx", 60_000))
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


async def test_a_coordinator_that_waits_for_its_turn_to_load_counts_from_when_it_was_due(start_node: Any) -> None:
    node = await start_node(SETTINGS)
    await node.create_topic("t")
    await begun(node)
    assert await load_times(node, "transaction") == await load_times(node, "group") == (0, 0)
    node.node.abort()
    node.disk.crash_process()
    node = await start_node(SETTINGS, disk=node.disk)
    broker = node.node.broker
    for kind, shards in (("transaction", broker.coordination.transactions), ("group", broker.coordination.groups)):
        for shard in list(shards._shards.values()):
            await shard.loaded()
        shards.close(kafka_error("NOT_COORDINATOR"))
        node.clock.advance(60_001)
        assert all(map(math.isnan, shards.recent_load_times()))
        async with shards.load_lock:
            shard = shards.shard(0)
            assert shard.loading is not None
            await node.turns(2)
            node.clock.advance(700)
        await shard.loaded()
        await node.turns(1)
        assert await load_times(node, kind) == (700, 700)


async def test_a_log_that_cannot_be_read_counts_as_no_load(start_node: Any) -> None:
    node = await start_node(SETTINGS)
    await node.create_topic("t")
    await begun(node)
    shards = node.node.broker.coordination.transactions
    shards.close(kafka_error("NOT_COORDINATOR"))
    node.clock.advance(60_001)
    async with shards.load_lock:
        shard = shards.shard(0)
        await node.turns(1)
        shard.host.stop("not to be read")
    while shard.loading is not None:
        await node.turns(1)
    assert all(map(math.isnan, await load_times(node, "transaction")))


async def test_reports_to_leaders_are_counted_by_request_and_by_failed_partition(start_node: Any) -> None:
    node = await start_node(SETTINGS)
    await node.create_topic("t", 2)
    producer_id, epoch = await begun(node)
    client = node.connect()

    async def write(version: int, partition: int, sequence: int = 0) -> int:
        ids = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        request = produce(b"v", partition=partition, is_transactional=True, **ids)
        answer = await client.ask(ApiKey.PRODUCE, version, type(request)("tx", -1, 30_000, request.topic_data))
        return int(answer.responses[0].partition_responses[0].error_code)

    async def counts() -> tuple[float, float]:
        found = await shown(node)
        return found[f"{VERIFICATIONS}verificationtimems_count"], found[f"{VERIFICATIONS}verificationfailurerate_count"]

    assert await counts() == (0, 0)
    assert await write(11, 0) == 120
    assert await counts() == (1, 1)
    row = AddPartitionsToTxnTopic("t", (0,))
    await client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, AddPartitionsToTxnRequest((), "tx", producer_id, epoch, (row,)))
    assert await write(11, 0) == 0
    assert await counts() == (2, 1)
    assert await write(11, 0, 1) == 0
    assert await counts() == (2, 1), "an open transaction is asked for once"
    assert await write(12, 1) == 0
    assert await counts() == (3, 1)
    rows = (TxnOffsetCommitRequestTopic("t", partitions=(TxnOffsetCommitRequestPartition(0, 5),)),)
    commit = TxnOffsetCommitRequest("tx", "g", producer_id, epoch, topics=rows)
    for version, codes in ((3, {48}), (5, {0})):
        answer = await client.ask(ApiKey.TXN_OFFSET_COMMIT, version, commit)
        assert {each.error_code for each in answer.topics[0].partitions} == codes
    assert await counts() == (5, 2)


async def test_an_average_and_the_longest_of_a_minute() -> None:
    times = LoadTimes()
    assert all(map(math.isnan, times.recent(0)))
    times.add(1_000, 10)
    times.add(31_000, 40)
    assert times.recent(61_000) == (25, 40)
    assert times.recent(61_001) == (40, 40)
    assert all(map(math.isnan, times.recent(91_001)))


async def test_the_time_of_an_answer_is_shown_in_milliseconds() -> None:
    verifications = Verifications()
    verifications.add((0, 51, 0, 120), 1_000, 1_250)
    assert (verifications.count, verifications.failures) == (1, 2)
    out = Samples(TABLE)
    out.add_summary(f"{VERIFICATIONS}verificationtimems", verifications.times.quantiles(1_000), verifications.count)
    page = out.render().decode()
    (median,) = [line for line in page.splitlines() if 'verificationtimems{quantile="0.50"}' in line]
    assert 250 <= float(median.split()[-1]) <= 250 * 1.2
    assert f"{VERIFICATIONS}verificationtimems_count 1\n" in page
