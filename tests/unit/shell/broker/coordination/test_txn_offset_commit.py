"""TxnOffsetCommit on a connection: the rights, the verification in each version, when the offsets count."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from moldau.core.groups.records import OffsetRecord, decode_group_record
from moldau.types import Uuid
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.groups_classic import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.wire.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.wire.records.record import read_records
from tests.support.logs import batches_in
from tests.support.node import finalize

pytestmark = pytest.mark.asyncio

SETTINGS = {"transaction.state.log.num.partitions": "2"}
CONCURRENT, UNSTABLE = 51, 88


class Producer:
    """A transactional producer on one connection."""

    def __init__(self, node: Any, transactional_id: str = "copier") -> None:
        self.node = node
        self.client = node.connect()
        self.transactional_id = transactional_id
        self.producer_id, self.epoch = -1, -1

    async def begin(self, *, joins: bool = True) -> Producer:
        """`joins`: the group joins the transaction, as it must before v5."""
        await self.client.ask(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key="g"))
        await self.client.ask(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key=self.transactional_id, key_type=1))
        request = InitProducerIdRequest(self.transactional_id, 60_000)
        answer = await self.client.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
        assert answer.error_code == 0
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        if joins:
            await self.join()
        return self

    async def join(self) -> None:
        add = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, "g")
        assert (await self.client.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, add)).error_code == 0

    async def commit(self, version: int, *rows: tuple[str, int, int], **fields: Any) -> list[tuple[str, int, int]]:
        """`rows`: topic, partition, offset. Gives topic, partition, error code."""
        metadata = fields.pop("metadata", "")
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for topic, partition, offset in rows or (("t", 0, 5),):
            topics.setdefault(topic, []).append(TxnOffsetCommitRequestPartition(partition, offset, -1, metadata))
        values: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "group_id": "g",
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            **fields,
        }
        request = TxnOffsetCommitRequest(
            topics=tuple(TxnOffsetCommitRequestTopic(name, partitions=tuple(parts)) for name, parts in topics.items()),
            **values,
        )
        answer = await self.client.ask(ApiKey.TXN_OFFSET_COMMIT, version, request)
        while any(row.error_code == CONCURRENT for topic in answer.topics for row in topic.partitions):
            # the transaction before is still ending
            await self.node.turns(1)
            answer = await self.client.ask(ApiKey.TXN_OFFSET_COMMIT, version, request)
        return [
            (topic.name, row.partition_index, row.error_code) for topic in answer.topics for row in topic.partitions
        ]

    async def code(self, version: int, **fields: Any) -> int:
        ((_, _, code),) = await self.commit(version, **fields)
        return code

    async def end(self, version: int = 3, *, is_commit: bool = True) -> None:
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, is_commit)
        answer = await self.client.ask(ApiKey.END_TXN, version, request)
        assert answer.error_code == 0
        if version >= 5:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch


async def started(start_node: Any, **settings: str) -> Any:
    node = await start_node(SETTINGS | {name.replace("_", "."): value for name, value in settings.items()})
    await node.create_topic("t", 3)
    await node.create_topic("u")
    return node


async def position(node: Any, partition: int = 0, *, require_stable: bool = True) -> tuple[int, int]:
    topics = (OffsetFetchRequestTopic("t", partition_indexes=(partition,)),)
    request = OffsetFetchRequest(group_id="g", topics=topics, require_stable=require_stable)
    answer = await node.connect().ask(ApiKey.OFFSET_FETCH, 7, request)
    row = answer.topics[0].partitions[0]
    return row.committed_offset, row.error_code


async def settled(node: Any) -> tuple[int, int]:
    """The committed offset after the marker: with several brokers it is written after EndTxn is answered."""
    for _ in range(500):
        found = await position(node)
        if found[1] != UNSTABLE:
            return found
        await node.turns(1)
    raise AssertionError("the marker did not come")


@pytest.mark.parametrize(("is_commit", "found"), [(True, 5), (False, -1)])
@pytest.mark.parametrize(("version", "end_version"), [(0, 0), (2, 2), (3, 3), (4, 4), (5, 5)])
async def test_offsets_count_when_the_transaction_is_committed(
    start_node: Any, version: int, end_version: int, is_commit: bool, found: int
) -> None:
    node = await started(start_node)
    producer = await Producer(node).begin(joins=version < 5)
    assert await producer.code(version) == 0
    assert await position(node) == (-1, UNSTABLE)
    assert await position(node, require_stable=False) == (-1, 0)
    await producer.end(end_version, is_commit=is_commit)
    assert await settled(node) == (found, 0)


async def test_one_transaction_follows_another_under_its_new_epoch(start_node: Any) -> None:
    node = await started(start_node)
    producer = await Producer(node).begin(joins=False)
    for offset in range(1, 4):
        assert await producer.commit(5, ("t", 0, offset)) == [("t", 0, 0)]
        await producer.end(5)
        assert await settled(node) == (offset, 0)


@pytest.mark.parametrize(("version", "code"), [(0, 48), (3, 48), (4, 120), (5, 0)])
async def test_a_group_that_has_not_joined_is_refused_before_v5(start_node: Any, version: int, code: int) -> None:
    node = await started(start_node)
    producer = await Producer(node).begin(joins=False)
    assert await producer.code(version) == code
    assert await position(node) == (-1, 0 if code else UNSTABLE)


async def test_no_group_joins_by_itself_while_transactions_v2_are_not_finalized(start_node: Any) -> None:
    node = await started(start_node)
    await finalize(node, 0)
    producer = await Producer(node).begin(joins=False)
    assert await producer.code(5) == 35
    assert await position(node) == (-1, 0)
    await producer.join()
    assert await producer.code(3) == 0
    assert await producer.code(5) == 0
    await finalize(node, 1)
    other = await Producer(node, "other").begin(joins=False)
    assert await other.code(5) == 0


async def test_without_verification_it_is_taken_as_old_brokers_did(start_node: Any) -> None:
    node = await started(start_node, transaction_partition_verification_enable="false")
    producer = await Producer(node).begin(joins=False)
    assert await producer.code(3) == 0
    assert await position(node) == (-1, UNSTABLE)


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_a_fenced_producer_is_refused(start_node: Any, version: int) -> None:
    node = await started(start_node)
    first = await Producer(node).begin(joins=False)
    await Producer(node).begin()
    assert await first.code(version) == 47
    assert await position(node) == (-1, 0)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, 24),
        ({"producer_id": -1}, 49),
        ({"generation_id_or_member_epoch": 1}, 22),
        ({"metadata": "x" * 4_097}, 12),
    ],
)
async def test_what_is_wrong_with_the_request_is_said_for_each_partition(
    start_node: Any, fields: dict[str, Any], code: int
) -> None:
    node = await started(start_node)
    producer = await Producer(node).begin()
    answer = await producer.commit(3, ("t", 0, 5), ("t", 2, 6), ("u", 0, 7), **fields)
    assert answer == [("t", 0, code), ("t", 2, code), ("u", 0, code)]
    assert await position(node) == (-1, 0)


async def test_what_is_not_known_is_refused_before_the_group_is_asked(start_node: Any) -> None:
    node = await started(start_node)
    producer = await Producer(node).begin()
    assert await producer.commit(3, ("none", 0, 5), ("t", 9, 5), group_id="") == [("none", 0, 3), ("t", 9, 3)]


async def test_unknown_topics_and_partitions_are_refused_and_the_others_are_committed(start_node: Any) -> None:
    node = await started(start_node)
    producer = await Producer(node).begin()
    answer = await producer.commit(3, ("none", 0, 1), ("t", 2, 6), ("t", 9, 7), ("t", 0, 5))
    assert answer == [("none", 0, 3), ("t", 2, 0), ("t", 9, 3), ("t", 0, 0)]
    await producer.end()
    assert await settled(node) == (5, 0)
    assert await position(node, 2) == (6, 0)


async def test_without_any_known_topic_nothing_is_asked_of_the_coordinators(start_node: Any) -> None:
    node = await started(start_node)
    producer = Producer(node)
    assert await producer.commit(3, ("none", 0, 1), producer_id=7, producer_epoch=0) == [("none", 0, 3)]
    assert await producer.commit(3, ("t", 0, 1), producer_id=7, producer_epoch=0) == [("t", 0, 16)]


async def test_pending_offsets_survive_a_crash_and_the_transaction_can_be_committed_then(start_node: Any) -> None:
    node = await started(start_node)
    producer = await Producer(node).begin(joins=False)
    assert await producer.code(5) == 0
    node.node.abort()
    node.disk.crash_process()
    node = await start_node(SETTINGS, disk=node.disk)
    assert await position(node) == (-1, UNSTABLE)
    producer.node, producer.client = node, node.connect()
    await producer.end(5)
    assert await settled(node) == (5, 0)


async def test_no_field_of_a_transactional_commit_is_lost(start_node: Any) -> None:
    """Another value is rejected, or gives another record: in the request, in a topic and in a partition."""
    node = await started(start_node, offsets_topic_num_partitions="1", group_initial_rebalance_delay_ms="0")
    producer = await Producer(node).begin()
    protocols = (JoinGroupRequestProtocol("range", b""),)
    join = JoinGroupRequest("g", 10_000, 10_000, protocol_type="consumer", protocols=protocols)
    member = await producer.client.ask(ApiKey.JOIN_GROUP, 3, join)

    async def outcome(request: TxnOffsetCommitRequest) -> tuple[set[int], object]:
        answer = await producer.client.ask(ApiKey.TXN_OFFSET_COMMIT, 3, request)
        return {row.error_code for topic in answer.topics for row in topic.partitions}, last_position(node)

    row = TxnOffsetCommitRequestPartition(0, 1, 1, "")
    topic = TxnOffsetCommitRequestTopic("t", partitions=(row,))
    request = TxnOffsetCommitRequest(
        producer.transactional_id,
        "g",
        producer.producer_id,
        producer.epoch,
        member.generation_id,
        member.member_id,
        topics=(topic,),
    )
    stranger = replace(request, transactional_id="another")
    answer = await producer.client.ask(ApiKey.TXN_OFFSET_COMMIT, 3, stranger)
    assert answer.topics[0].partitions[0].error_code != 0, "before the group has taken a position of the transaction"
    expected = await outcome(request)
    assert expected[0] == {0}
    other_row = TxnOffsetCommitRequestPartition(1, 1, 1, "")
    others = {"topics": (replace(topic, partitions=(other_row,)),), "partitions": (other_row,), "name": "other"}
    changes = [("the request", request, lambda changed: changed)]
    changes += [("a topic", topic, lambda changed: replace(request, topics=(changed,)))]
    changes += [("a partition", row, lambda changed: replace(request, topics=(replace(topic, partitions=(changed,)),)))]
    for what, part, put in changes:
        for name in part.__struct_fields__:
            if name in ("transactional_id", "topic_id"):  # the id: from version 6 on
                continue
            value = getattr(part, name)
            other = others.get(name, value + 1 if isinstance(value, int) else "another")
            assert await outcome(put(replace(part, **{name: other}))) != expected, (what, name)
            assert await outcome(request) == expected


def last_position(node: Any) -> object:
    """The last record of `__consumer_offsets`, without its time."""
    log = node.node.broker.partitions.find("__consumer_offsets", 0).log
    *_, (_, batch) = batches_in(log)
    record = read_records(batch)[-1]
    position = decode_group_record(record.key, record.value)
    assert isinstance(position, OffsetRecord)
    assert position.value is not None
    return replace(position, value=replace(position.value, commit_timestamp=0))


async def test_version_6_knows_topics_by_their_ids_only(start_node: Any) -> None:
    """As Apache Kafka 4.4.0 answered: unknown id 100, unknown partition 3, a generation of no group 69."""
    node = await started(start_node)
    producer = await Producer(node).begin()
    topic_id = node.node.broker.image.topics_by_name["t"].topic_id

    async def codes(topic_id: Uuid, partition: int = 0, **fields: Any) -> list[int]:
        row = TxnOffsetCommitRequestPartition(partition, 5)
        request = TxnOffsetCommitRequest(
            producer.transactional_id,
            fields.pop("group_id", "g"),
            producer.producer_id,
            producer.epoch,
            topics=(TxnOffsetCommitRequestTopic(topic_id=topic_id, partitions=(row,)),),
            **fields,
        )
        answer = await producer.client.ask(ApiKey.TXN_OFFSET_COMMIT, 6, request)
        assert [(topic.name, topic.topic_id) for topic in answer.topics] == [("", topic_id)]
        return [row.error_code for topic in answer.topics for row in topic.partitions]

    assert await codes(topic_id) == [0]
    assert await codes(Uuid(b"\x07" * 16)) == [100]
    assert await codes(topic_id, 9) == [3]
    assert await codes(topic_id, group_id="none", generation_id_or_member_epoch=3, member_id="m") == [69]
    assert await producer.code(5, group_id="none", generation_id_or_member_epoch=3, member_id="m") == 22
    await producer.end(5)
    assert await settled(node) == (5, 0)
