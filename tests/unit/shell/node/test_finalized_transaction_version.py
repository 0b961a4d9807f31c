"""A directory keeps its finalized level of `transaction.version`: a restart does not raise it."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeTransactionsRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.node import finalize, produce

pytestmark = pytest.mark.asyncio

SETTINGS = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
NOTHING_NEW = -1, -1
"""Producer id and epoch in an EndTxn response: v1 names none."""


class Producer:
    """Of the transactional id `name` and the group `g`."""

    def __init__(self, node: Any, name: str) -> None:
        self.node = node
        self.client = node.connect()
        self.name = name

    async def begun(self) -> Producer:
        for kind, key in enumerate(("g", self.name)):
            await self.client.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=key, key_type=kind))
        answer = await self.client.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(self.name, 1_000))
        assert answer.error_code == 0
        self.ids = answer.producer_id, answer.producer_epoch
        return self

    async def join(self) -> None:
        """Like clients of v1: before they write."""
        rows = (AddPartitionsToTxnTopic("t", (0,)),)
        request = AddPartitionsToTxnRequest((), self.name, *self.ids, rows)
        answer = await self.client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
        assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
        request = AddOffsetsToTxnRequest(self.name, *self.ids, "g")
        assert (await self.client.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, request)).error_code == 0

    async def write(self, version: int, sequence: int = 0) -> int:
        ids = {"producer_id": self.ids[0], "producer_epoch": self.ids[1], "base_sequence": sequence}
        request = produce(b"v", is_transactional=True, **ids)
        request = type(request)(self.name, -1, 30_000, request.topic_data)
        answer = await self.client.ask(ApiKey.PRODUCE, version, request)
        return int(answer.responses[0].partition_responses[0].error_code)

    async def commit(self, version: int) -> int:
        rows = (TxnOffsetCommitRequestTopic("t", partitions=(TxnOffsetCommitRequestPartition(0, 5),)),)
        request = TxnOffsetCommitRequest(self.name, "g", *self.ids, topics=rows)
        answer = await self.client.ask(ApiKey.TXN_OFFSET_COMMIT, version, request)
        return int(answer.topics[0].partitions[0].error_code)

    async def end(self, version: int) -> tuple[int, int, int]:
        answer = await self.client.ask(ApiKey.END_TXN, version, EndTxnRequest(self.name, *self.ids, True))
        return answer.error_code, answer.producer_id, answer.producer_epoch

    async def described(self, state: str) -> Any:
        """Once it is in that state."""
        request = DescribeTransactionsRequest((self.name,))
        for _ in range(1_000):
            (found,) = (await self.client.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, request)).transaction_states
            if found.transaction_state == state:
                return found
            await self.node.turns(1)
        raise AssertionError(found)


async def restarted(start_node: Any, level: int, *, is_clean: bool) -> Any:
    """A node on a directory of that level, after a clean stop or a crash."""
    node = await start_node(SETTINGS)
    await node.create_topic("t")
    if level != 2:
        await finalize(node, level)
    if is_clean:
        await node.node.stop()
    else:
        node.node.abort()
        node.disk.crash_process()
    return await start_node(SETTINGS, disk=node.disk)


async def shown_level(node: Any) -> int:
    answer = await node.connect().ask(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("test", "1"))
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    return levels.get("transaction.version", 0)


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("level", [0, 1])
async def test_a_restart_keeps_the_level_and_serves_transactions_v1(
    start_node: Any, level: int, is_clean: bool
) -> None:
    node = await restarted(start_node, level, is_clean=is_clean)
    assert node.node.broker.image.features.get("transaction.version", 0) == level
    assert await shown_level(node) == level
    producer = await Producer(node, "old").begun()
    assert await producer.write(11) == 120
    assert await producer.commit(4) == 120
    await producer.join()
    for number in range(2):
        assert await producer.write(11, number) == 0
        assert await producer.commit(4) == 0
        assert await producer.end(4) == (0, *NOTHING_NEW)
        found = await producer.described("CompleteCommit")
        assert (found.producer_id, found.producer_epoch) == producer.ids
        await producer.join()


@pytest.mark.parametrize(("level", "code"), [(0, 35), (1, 0)])
async def test_only_at_level_0_is_it_refused_what_v2_asks(start_node: Any, level: int, code: int) -> None:
    """At level 1 the records can hold it, and Apache Kafka accepts it from a client that asks for it; none does."""
    node = await restarted(start_node, level, is_clean=True)
    writer, committer = await Producer(node, "w").begun(), await Producer(node, "c").begun()
    assert await writer.write(12) == code
    assert await committer.commit(5) == code
    ender = await Producer(node, "e").begun()
    await ender.join()
    epoch = ender.ids[1]
    assert await ender.end(5) == ((code, *NOTHING_NEW) if code else (0, ender.ids[0], epoch + 1))


@pytest.mark.parametrize(("level", "client_version"), [(0, 0), (1, 0), (2, 2)])
async def test_the_broker_itself_ends_transactions_by_the_level(
    start_node: Any, level: int, client_version: int
) -> None:
    """For an expired transaction no client decides how it ends."""
    node = await restarted(start_node, level, is_clean=False)
    producer = await Producer(node, "late").begun()
    await producer.join()
    assert await producer.write(11) == 0
    shard = node.node.broker.coordination.transactions.shard_for("late")
    node.clock.advance(20_000)
    shard.fire()
    found = await producer.described("CompleteAbort")
    assert (found.producer_id, found.producer_epoch) == (producer.ids[0], producer.ids[1] + 1)
    assert (await producer.end(4))[0] == 90
    assert shard.host.state.transactions["late"].client_version == client_version


async def test_the_level_may_be_raised_after_the_restart(start_node: Any) -> None:
    node = await restarted(start_node, 0, is_clean=True)
    producer = await Producer(node, "new").begun()
    assert await producer.write(12) == 35
    await finalize(node, 2)
    assert await shown_level(node) == 2
    assert await producer.write(12) == 0
    assert await producer.end(5) == (0, producer.ids[0], producer.ids[1] + 1)
