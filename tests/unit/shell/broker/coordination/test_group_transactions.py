"""The group coordinators of a node and transactions: markers, the verification before a commit, loads, crashes."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from moldau.core.groups.requests import CommitInTransaction, GroupRequest
from moldau.shell.network.pauses import TURN_THINGS
from moldau.types import ProducerEpoch, ProducerId, TopicPartition
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from moldau.wire.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from moldau.wire.records.control import EndTransactionMarker

pytestmark = pytest.mark.asyncio

INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, FENCED_COORDINATOR = 47, 48, 52
NOT_LEADER, UNSTABLE = 6, 88


async def started(start_node: Any, **fields: Any) -> Any:
    node = await start_node(**fields)
    if "disk" not in fields:
        await node.create_topic("t")
        answer = await node.connect().ask(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key="g"))
        assert answer.error_code == 0
    return node


async def restarted(start_node: Any, node: Any) -> Any:
    node.node.abort()
    node.disk.crash_process()
    return await started(start_node, disk=node.disk)


async def is_fine(_: TopicPartition) -> int:
    return 0


async def commit(
    node: Any, offset: int, *, producer_id: int = 9, epoch: int = 0, verify: Any = is_fine, partitions: int = 1
) -> int:
    rows = tuple(OffsetCommitRequestPartition(index, offset) for index in range(partitions))
    topics = (OffsetCommitRequestTopic("t", partitions=rows),)
    message = CommitInTransaction(
        OffsetCommitRequest(group_id="g", topics=topics), ProducerId(producer_id), ProducerEpoch(epoch)
    )
    answer = await node.node.broker.coordination.groups.ask_in_transaction(
        "g", GroupRequest(message, 3), message.producer_id, message.producer_epoch, verify
    )
    return answer.topics[0].partitions[0].error_code


async def end(
    node: Any,
    *,
    is_commit: bool = True,
    producer_id: int = 9,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 0,
    index: int = 0,
) -> int:
    marker = EndTransactionMarker(is_commit, coordinator_epoch)
    return await node.node.broker.coordination.groups.end_transaction(
        index, marker, ProducerId(producer_id), ProducerEpoch(epoch), version
    )


async def position(node: Any) -> tuple[int, int]:
    """Stable offset and error code."""
    topics = (OffsetFetchRequestTopic("t", partition_indexes=(0,)),)
    request = OffsetFetchRequest(group_id="g", topics=topics, require_stable=True)
    answer = await node.connect().ask(ApiKey.OFFSET_FETCH, 7, request)
    assert answer.error_code == 0
    row = answer.topics[0].partitions[0]
    return row.committed_offset, row.error_code


@pytest.mark.parametrize(("is_commit", "found"), [(True, 5), (False, -1)])
async def test_pending_offsets_and_their_marker_survive_a_crash(start_node: Any, is_commit: bool, found: int) -> None:
    node = await started(start_node)
    assert await commit(node, 5) == 0
    node = await restarted(start_node, node)
    assert await position(node) == (-1, UNSTABLE)
    assert await end(node, is_commit=is_commit) == 0
    assert await position(node) == (found, 0)
    node = await restarted(start_node, node)
    assert await position(node) == (found, 0)


async def test_a_marker_for_a_partition_of_another_leader_is_rejected(start_node: Any) -> None:
    """A coordinator of Apache Kafka does not know NOT_COORDINATOR in a partition's response: it would not retry."""
    node = await start_node()
    assert await end(node) == NOT_LEADER
    node = await started(start_node)
    assert await end(node, index=1) == NOT_LEADER
    assert await end(node, index=-1) == NOT_LEADER


async def test_a_marker_for_a_coordinator_that_cannot_serve_is_to_be_sent_again(start_node: Any) -> None:
    node = await started(start_node)
    assert await commit(node, 5) == 0
    shard = node.node.broker.coordination.groups.shard_for("g")
    shard.host.stop("a record cannot be read")
    assert await end(node) == NOT_LEADER


async def test_a_marker_that_an_unforeseen_error_keeps_out_is_to_be_sent_again(start_node: Any) -> None:
    """After -1 a coordinator of Apache Kafka forgets it, and the request's other markers with it."""
    node = await started(start_node)
    assert await commit(node, 5) == 0
    assert await end(node, epoch=1 << 20) == NOT_LEADER  # no batch header can hold this epoch
    assert await end(node) == 0


async def test_markers_of_earlier_epochs_are_refused_and_write_nothing(start_node: Any) -> None:
    node = await started(start_node)
    assert await commit(node, 5, epoch=1) == 0
    assert await end(node, epoch=1, coordinator_epoch=4) == 0
    partition = node.node.broker.coordination.groups.shard_for("g").partition
    before = partition.log.log_end_offset
    assert await end(node, epoch=0, coordinator_epoch=4) == INVALID_PRODUCER_EPOCH
    assert await end(node, epoch=1, coordinator_epoch=3) == FENCED_COORDINATOR
    assert await commit(node, 6, epoch=0) == INVALID_PRODUCER_EPOCH
    assert partition.log.log_end_offset == before
    assert await commit(node, 7, epoch=2) == 0


async def test_a_late_marker_of_an_earlier_transaction_is_refused_in_transactions_v2(start_node: Any) -> None:
    """There the marker's epoch is above that of its transaction: a marker with the open one's epoch belongs to
    another."""
    node = await started(start_node)
    assert await commit(node, 5, epoch=1) == 0
    assert await end(node, epoch=1, version=2) == INVALID_PRODUCER_EPOCH
    assert await position(node) == (-1, UNSTABLE)
    assert await end(node, epoch=2, version=2) == 0
    assert await position(node) == (5, 0)


async def test_what_is_not_in_the_transaction_is_not_committed(start_node: Any) -> None:
    node = await started(start_node)
    asked: list[TopicPartition] = []

    async def is_unknown(partition: TopicPartition) -> int:
        asked.append(partition)
        return INVALID_TXN_STATE

    assert await commit(node, 5, verify=is_unknown) == INVALID_TXN_STATE
    assert asked == [TopicPartition("__consumer_offsets", 0)]
    assert await position(node) == (-1, 0)


async def test_an_open_transaction_is_not_verified_again_but_another_epoch_is(start_node: Any) -> None:
    node = await started(start_node)
    assert await commit(node, 5, epoch=1) == 0

    async def is_unknown(_: TopicPartition) -> int:
        return INVALID_TXN_STATE

    assert await commit(node, 6, epoch=1, verify=is_unknown) == 0
    assert await commit(node, 7, epoch=2, verify=is_unknown) == INVALID_TXN_STATE
    assert await end(node, epoch=1) == 0
    assert await position(node) == (6, 0)
    assert await commit(node, 8, epoch=1, verify=is_unknown) == INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("producer_id", "epoch", "version", "code"),
    [(9, 1, 0, INVALID_TXN_STATE), (8, 1, 0, 0), (9, 1, 2, 0), (9, 2, 2, INVALID_PRODUCER_EPOCH)],
)
async def test_a_marker_during_the_verification_invalidates_it(
    start_node: Any, producer_id: int, epoch: int, version: int, code: int
) -> None:
    """Otherwise the commit would follow the marker, and be pending until another transaction of this producer ends. The
    marker of transactions v2 has an epoch above that of its transaction: one with the commit's epoch has ended the
    transaction before."""
    node = await started(start_node)
    verified: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def later(_: TopicPartition) -> int:
        return await verified

    commits = [asyncio.ensure_future(commit(node, 5, epoch=1, verify=later)) for _ in range(2)]
    await node.turns(1)
    assert await end(node, producer_id=producer_id, epoch=epoch, version=version) == 0
    verified.set_result(0)
    assert [await one for one in commits] == [code, code]
    assert node.node.broker.coordination.groups.shard_for("g").verifications == {}
    assert await position(node) == (-1, 0 if code else UNSTABLE)


async def test_a_verification_that_is_given_up_leaves_nothing(start_node: Any) -> None:
    node = await started(start_node)

    async def broken(_: TopicPartition) -> int:
        raise RuntimeError("no answer")

    with pytest.raises(RuntimeError):
        await commit(node, 5, verify=broken)
    assert node.node.broker.coordination.groups.shard_for("g").verifications == {}


async def test_the_end_of_a_transaction_of_many_positions_lets_others_have_a_turn(start_node: Any) -> None:
    count = 5 * TURN_THINGS
    node = await start_node()
    await node.create_topic("t", count)
    await node.connect().ask(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key="g"))
    assert await commit(node, 5, partitions=count) == 0
    state = node.node.broker.coordination.groups.shard_for("g").host.state
    ending = asyncio.ensure_future(end(node))
    seen = []
    while not ending.done():
        await node.turns(1)
        seen.append(len(state.offsets.get("g", {}).get("t", {})))
    assert (await ending, seen[-1]) == (0, count)
    assert max(after - before for before, after in pairwise([0, *seen])) <= 3 * TURN_THINGS


async def test_a_marker_waits_for_the_load_of_its_log(start_node: Any) -> None:
    node = await started(start_node)
    assert await commit(node, 5) == 0
    node = await restarted(start_node, node)
    shard = node.node.broker.coordination.groups.shard_for("g")
    assert shard.loading is not None
    assert await end(node) == 0
    assert await position(node) == (5, 0)


async def test_the_markers_of_a_request_wait_together_for_the_load_of_their_log(start_node: Any) -> None:
    node = await started(start_node)
    assert await commit(node, 5) == 0
    node = await restarted(start_node, node)
    assert node.node.broker.coordination.groups.shard_for("g").loading is not None
    topics = (WritableTxnMarkerTopic("__consumer_offsets", (0, 1)),)
    markers = tuple(WritableTxnMarker(producer_id, 0, True, topics) for producer_id in (8, 9, 10))
    answer = await node.connect().ask(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(markers))
    codes = [[row.error_code for row in result.topics[0].partitions] for result in answer.markers]
    assert codes == [[0, NOT_LEADER]] * 3
    assert await position(node) == (5, 0)


async def test_a_commit_and_its_marker_keep_their_order_even_during_a_load(start_node: Any) -> None:
    node = await started(start_node)
    assert await commit(node, 5) == 0
    node = await restarted(start_node, node)
    shard = node.node.broker.coordination.groups.shard_for("g")
    assert shard.loading is not None
    first = asyncio.ensure_future(commit(node, 6))
    await node.turns(1)
    second = asyncio.ensure_future(end(node))
    assert (await first, await second) == (0, 0)
    assert await position(node) == (6, 0)
