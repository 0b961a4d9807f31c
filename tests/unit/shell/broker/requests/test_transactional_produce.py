"""Transactional batches through Produce: the right to write them, how partitions join, and the readers' view."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.shell.broker.handlers.transactional_batches import refusal
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.protocol.messages.producer_ids import (
    DescribeProducersRequest,
    DescribeProducersTopic,
    InitProducerIdRequest,
)
from moldau.wire.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from moldau.wire.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeTransactionsRequest,
    EndTxnRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from moldau.wire.records.builder import build_batch
from moldau.wire.records.control import EndTransactionMarker
from tests.support.node import NOW_MS, data_of, fetch, finalize, produce, values_of

pytestmark = pytest.mark.asyncio

SETTINGS = {"transaction.state.log.num.partitions": "1"}
READ_COMMITTED = 1
MARKER_BYTES = 6
"""Version and coordinator epoch: the contents of a marker."""
MARKER = b"a marker"


class Producer:
    """A transactional producer of topic t. `version`: of its Produce requests; EndTxn is v5 if that is above 11."""

    def __init__(self, node: Any, version: int, name: str = "tx") -> None:
        self.node = node
        self.client = node.connect()
        self.version = version
        self.name = name
        self.producer_id = self.epoch = -1
        self.sequences: dict[int, int] = {}

    async def init(self) -> Producer:
        await self.client.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=self.name, key_type=1))
        answer = await self.client.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(self.name, 60_000))
        assert answer.error_code == 0
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return self

    async def add(self, *indexes: int) -> None:
        topics = (AddPartitionsToTxnTopic("t", indexes),)
        request = AddPartitionsToTxnRequest((), self.name, self.producer_id, self.epoch, topics)
        answer = await self.client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
        rows = [
            row.partition_error_code
            for each in answer.results_by_topic_v3_and_below
            for row in each.results_by_partition
        ]
        assert rows == [0] * len(indexes)

    def batch(self, sequence: int, *values: bytes, **fields: Any) -> bytes:
        ids = {"producer_id": self.producer_id, "producer_epoch": self.epoch, "is_transactional": True, **fields}
        return bytes(build_batch([(None, value, NOW_MS, ()) for value in values], base_sequence=sequence, **ids))

    def request(self, batches: dict[int, bytes], name: str | None = None, **fields: Any) -> ProduceRequest:
        rows = tuple(PartitionProduceData(index, records) for index, records in batches.items())
        topic_id = self.node.node.broker.image.topic_id("t") if self.version >= 13 else None
        identity = {"name": "t"} if topic_id is None else {"topic_id": topic_id}
        data = (TopicProduceData(partition_data=rows, **identity),)
        values = {"acks": -1, "timeout_ms": 30_000, "transactional_id": name or self.name, **fields}
        return ProduceRequest(topic_data=data, **values)

    async def send(self, batches: dict[int, bytes], name: str | None = None) -> list[int]:
        """The error code of each partition, in the order of the request."""
        answer = await self.client.ask(ApiKey.PRODUCE, self.version, self.request(batches, name))
        [topic] = answer.responses
        assert [row.index for row in topic.partition_responses] == list(batches)
        return [row.error_code for row in topic.partition_responses]

    async def write(self, *values: bytes, index: int = 0, name: str | None = None, **fields: Any) -> int:
        """The error code of one batch with the next sequence."""
        sequence = self.sequences.get(index, 0)
        [code] = await self.send({index: self.batch(sequence, *values or (b"v",), **fields)}, name)
        if not code:
            self.sequences[index] = sequence + len(values or (b"v",))
        return code

    async def end(self, *, commit: bool = True) -> int:
        version = 5 if self.version > 11 else 3
        request = EndTxnRequest(self.name, self.producer_id, self.epoch, commit)
        answer = await self.client.ask(ApiKey.END_TXN, version, request)
        if version == 5 and not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        described = None
        while described not in ("CompleteCommit", "CompleteAbort"):
            asked = DescribeTransactionsRequest((self.name,))
            [state] = (await self.client.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, asked)).transaction_states
            described = state.transaction_state
            await self.node.turns(1)
        code: int = answer.error_code
        return code


async def producer_on(start_node: Any, version: int, partitions: int = 2, **configs: str) -> Producer:
    node = await start_node(SETTINGS)
    await node.create_topic("t", partitions, **configs)
    return await Producer(node, version).init()


async def committed(node: Any, offset: int = 0) -> tuple[list[bytes | None], list[tuple[int, int]], int]:
    """All values below the last stable offset, the listed aborted transactions, and that offset."""
    answer = await node.connect().ask(ApiKey.FETCH, 12, fetch(offset, isolation_level=READ_COMMITTED))
    data = data_of(answer)
    aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
    values = [MARKER if value is not None and len(value) == MARKER_BYTES else value for value in values_of(answer)]
    return values, aborted, data.last_stable_offset


@pytest.mark.parametrize(("version", "code"), [(3, 48), (9, 48), (10, 48), (11, 120)])
async def test_a_partition_that_was_not_added_takes_nothing(start_node: Any, version: int, code: int) -> None:
    producer = await producer_on(start_node, version)
    await producer.add(1)
    assert await producer.send({0: producer.batch(0, b"v"), 1: producer.batch(0, b"v")}) == [code, 0]
    await producer.add(0)
    assert await producer.write(b"v") == 0
    assert await producer.write(b"w") == 0


@pytest.mark.parametrize("version", [12, 13])
async def test_partitions_join_by_being_written_to(start_node: Any, version: int) -> None:
    producer = await producer_on(start_node, version)
    assert await producer.send({0: producer.batch(0, b"a"), 1: producer.batch(0, b"b")}) == [0, 0]
    assert await producer.send({0: producer.batch(1, b"c")}) == [0]
    assert (await committed(producer.node))[2] == 0
    assert await producer.end() == 0
    assert await committed(producer.node) == ([b"a", b"c", MARKER], [], 3)
    assert await producer.write(b"d") == 0, "the next transaction, with the next epoch"


async def test_while_transactions_have_version_0_nothing_joins(start_node: Any) -> None:
    producer = await producer_on(start_node, 12)
    await finalize(producer.node, 0)
    assert await producer.write() == 35
    await finalize(producer.node, 1)
    assert await producer.write() == 0


@pytest.mark.parametrize("version", [9, 11, 12])
async def test_batches_of_another_epoch_producer_or_transactional_id_are_refused(start_node: Any, version: int) -> None:
    producer = await producer_on(start_node, version, 4)
    other = await Producer(producer.node, version, "other").init()
    await producer.add(0, 1)
    assert await producer.write() == 0
    for index in (0, 1):
        assert [await producer.write(index=index, producer_epoch=epoch) for epoch in (-1, 1)] == [47, 47]
    assert await other.send({1: producer.batch(0, b"v")}) == [49]
    assert await producer.send({1: producer.batch(0, b"v")}, name="nobody") == [49]
    assert await other.send({0: producer.batch(1, b"v")}) == [48], "Kafka takes the batch"
    assert await producer.write(index=1) == 0
    assert await producer.write() == 0


@pytest.mark.parametrize("version", [9, 11, 12])
async def test_after_a_marker_of_a_later_epoch_a_batch_gets_47_without_the_coordinator(
    start_node: Any, version: int
) -> None:
    producer = await producer_on(start_node, version)
    topics = (WritableTxnMarkerTopic("t", (0,)),)
    marker = WritableTxnMarker(producer.producer_id, producer.epoch + 1, False, topics, coordinator_epoch=-1)
    await producer.client.ask(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest((marker,)))
    assert await producer.write() == 47


async def test_a_request_with_two_producers_is_refused(start_node: Any) -> None:
    producer = await producer_on(start_node, 12)
    batches = {0: producer.batch(0, b"v"), 1: producer.batch(0, b"v", producer_id=producer.producer_id + 1)}
    assert await producer.send(batches) == [49, 49]


async def test_without_a_transactional_id_only_plain_batches_are_taken(start_node: Any) -> None:
    producer = await producer_on(start_node, 12)
    assert await producer.write() == 0
    request = producer.request({0: producer.batch(1, b"v"), 1: bytes(build_batch([(None, b"v", NOW_MS, ())]))})
    request = ProduceRequest(acks=-1, topic_data=request.topic_data)
    answer = await producer.client.ask(ApiKey.PRODUCE, 12, request)
    assert [row.error_code for row in answer.responses[0].partition_responses] == [53, 0]


async def test_a_plain_batch_of_the_producer_waits_for_the_end_of_its_transaction(start_node: Any) -> None:
    producer = await producer_on(start_node, 12)
    assert await producer.write() == 0
    assert await producer.write(is_transactional=False) == 48
    assert await producer.write(index=1, is_transactional=False) == 0
    plain = produce(b"of nobody")
    assert (await producer.client.ask(ApiKey.PRODUCE, 12, plain)).responses[0].partition_responses[0].error_code == 0


async def test_the_first_batch_of_a_transaction_is_not_overtaken(start_node: Any) -> None:
    producer = await producer_on(start_node, 12)
    assert await producer.send({0: producer.batch(1, b"second")}) == [45]
    assert await producer.send({0: producer.batch(0, b"first")}) == [0]
    assert await producer.send({0: producer.batch(1, b"second")}) == [0]


@pytest.mark.parametrize(("version", "code"), [(9, 48), (11, 120)])
async def test_a_batch_that_was_refused_keeps_no_later_one_back(start_node: Any, version: int, code: int) -> None:
    """A late repeat, and the first batch of a partition that was not added."""
    producer = await producer_on(start_node, version, 3)
    await producer.add(0)
    assert await producer.write(b"a", b"b") == 0
    late = producer.batch(0, b"a", b"b")
    assert await producer.end() == 0
    await producer.add(1)
    assert await producer.send({0: late}) == [code]
    await producer.add(0)
    assert await producer.write(b"c") == 0
    assert await producer.end() == 0
    await producer.add(0)
    assert await producer.send({2: producer.batch(0, b"d")}) == [code]
    await producer.add(2)
    assert await producer.send({2: producer.batch(1, b"e")}) == [0]


async def test_with_verification_switched_off_the_client_is_believed(start_node: Any) -> None:
    node = await start_node(SETTINGS | {"transaction.partition.verification.enable": "false"})
    await node.create_topic("t", 2)
    producer = await Producer(node, 9).init()
    assert await producer.write() == 0
    producer.version = 12
    assert await producer.write(index=1, producer_epoch=7) == 47, "a partition that joins is always asked for"


async def test_an_open_transaction_asks_its_coordinator_nothing_more(start_node: Any) -> None:
    producer = await producer_on(start_node, 12)
    assert await producer.write() == 0
    producer.node.node.broker.coordination.transactions.close(KeyError("nobody may ask"))
    producer.client.send(ApiKey.PRODUCE, 12, producer.request({0: producer.batch(1, b"v")}))
    [answer] = producer.client.answers()
    assert answer.responses[0].partition_responses[0].error_code == 0


async def test_the_first_batch_of_a_transaction_is_answered_inline(start_node: Any) -> None:
    producer = await producer_on(start_node, 12)
    producer.client.send(ApiKey.PRODUCE, 12, producer.request({0: producer.batch(0, b"v"), 1: producer.batch(0, b"v")}))
    [answer] = producer.client.answers()
    assert [row.error_code for row in answer.responses[0].partition_responses] == [0, 0]


@pytest.mark.parametrize("acks", [-1, 0])
async def test_batches_stay_in_order_while_the_coordinator_waits_for_the_disk(start_node: Any, acks: int) -> None:
    """The first one waits until its partition has joined; later ones on the connection do not begin before."""
    node = await start_node(SETTINGS | {"log.flush.interval.messages": "1"})
    await node.create_topic("t", 2)
    producer = await Producer(node, 12).init()
    end_offset = node.node.broker.partitions.find("t", 0).log.log_end_offset
    for sequence in range(5):
        batch = producer.batch(sequence, b"%d" % sequence)
        producer.client.send(ApiKey.PRODUCE, 12, producer.request({0: batch}, acks=acks))
    assert node.node.broker.partitions.find("t", 0).log.log_end_offset == end_offset == 0
    if acks:
        answers = await producer.client.next_answers(5)
        assert [answer.responses[0].partition_responses[0].base_offset for answer in answers] == list(range(5))
    else:
        await node.turns(200)
        assert not producer.client.wire.is_closed
    assert await producer.end() == 0
    assert await committed(node) == ([b"0", b"1", b"2", b"3", b"4", MARKER], [], 6)


async def test_a_client_that_leaves_during_the_wait_leaves_an_endable_transaction(start_node: Any) -> None:
    node = await start_node(SETTINGS | {"log.flush.interval.messages": "1"})
    await node.create_topic("t", 2)
    producer = await Producer(node, 12).init()
    producer.client.send(ApiKey.PRODUCE, 12, producer.request({0: producer.batch(0, b"v")}))
    producer.client.wire.close()
    await node.turns(100)
    producer.client = node.connect()
    assert await producer.end(commit=False) == 0
    values, aborted, stable = await committed(node)
    assert (values, stable) == ([b"v", MARKER], 2)
    assert aborted == [(producer.producer_id, 0)]


async def test_of_many_partitions_all_join(start_node: Any) -> None:
    producer = await producer_on(start_node, 12, 250)
    codes = await producer.send({index: producer.batch(0, b"v") for index in range(250)})
    assert codes == [0] * 250
    assert await producer.end() == 0
    assert await producer.write(index=249) == 0


@pytest.mark.parametrize("configs", [{"compression_type": "gzip"}, {"message_timestamp_type": "LogAppendTime"}])
async def test_a_batch_that_is_rewritten_keeps_its_transaction(start_node: Any, configs: dict[str, str]) -> None:
    producer = await producer_on(start_node, 12, **configs)
    assert await producer.write(b"a", b"b") == 0
    assert (await committed(producer.node))[2] == 0
    assert await producer.end(commit=False) == 0
    assert await producer.write(b"c") == 0
    assert await producer.end() == 0
    values, aborted, stable = await committed(producer.node)
    assert (values, stable) == ([b"a", b"b", MARKER, b"c", MARKER], 5)
    assert aborted == [(producer.producer_id, 0)]


async def test_a_parked_reader_of_committed_records_is_answered_by_the_marker(start_node: Any) -> None:
    producer = await producer_on(start_node, 12)
    reader = producer.node.connect()
    assert await producer.write(b"v") == 0
    reader.send(ApiKey.FETCH, 12, fetch(0, max_wait_ms=60_000, isolation_level=READ_COMMITTED))
    assert await producer.write(b"w") == 0
    await producer.node.turns(5)
    assert reader.answers() == []
    assert await producer.end() == 0
    [answer] = reader.answers()
    assert len(values_of(answer)) == 3


@pytest.mark.parametrize("is_parked_first", [False, True])
async def test_the_bytes_of_a_whole_transaction_count_for_a_parked_reader(
    start_node: Any, is_parked_first: bool
) -> None:
    """It waits for many bytes, and the marker brings few: all bytes that become readable with the marker count."""
    producer = await producer_on(start_node, 12)
    reader = producer.node.connect()
    request = fetch(0, max_wait_ms=60_000, isolation_level=READ_COMMITTED, min_bytes=5_000)
    if is_parked_first:
        reader.send(ApiKey.FETCH, 12, request)
    assert await producer.write(bytes(10_000)) == 0
    await producer.node.turns(5)
    if not is_parked_first:
        reader.send(ApiKey.FETCH, 12, request)
        await producer.node.turns(5)
    assert reader.answers() == []
    assert await producer.end() == 0
    [answer] = reader.answers()
    assert len(values_of(answer)) == 2


async def test_a_transaction_goes_on_after_a_crash_and_is_verified_once_more(start_node: Any) -> None:
    disk = MemoryDisk()
    first = await start_node(SETTINGS, disk=disk)
    await first.create_topic("t", 2)
    producer = await Producer(first, 9).init()
    await producer.add(0)
    assert await producer.write(b"a") == 0
    first.node.abort()
    producer.node = await start_node(SETTINGS, disk=disk)
    producer.client = producer.node.connect()
    assert await producer.write(b"b", name="foreign") == 49
    assert await producer.write(b"b", index=1) == 48
    assert await producer.write(b"b") == 0
    assert await producer.end() == 0
    assert await committed(producer.node) == ([b"a", b"b", MARKER], [], 3)


async def test_describe_producers_shows_the_open_transaction_and_its_coordinator(start_node: Any) -> None:
    producer = await producer_on(start_node, 12)

    async def described() -> tuple[int, int, int, int, int]:
        request = DescribeProducersRequest((DescribeProducersTopic("t", (0,)),))
        answer = await producer.client.ask(ApiKey.DESCRIBE_PRODUCERS, 0, request)
        [one] = answer.topics[0].partitions[0].active_producers
        assert one.producer_id == producer.producer_id
        return (
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.coordinator_epoch,
            one.current_txn_start_offset,
        )

    assert await producer.write(b"a", b"b") == 0
    assert await described() == (0, 1, NOW_MS, -1, 0)
    assert await producer.end() == 0
    epoch, sequence, _, coordinator_epoch, start_offset = await described()
    assert (epoch, sequence, start_offset) == (1, -1, -1)
    assert coordinator_epoch >= 0


async def test_a_partition_moves_to_another_log_directory_with_its_open_transaction(start_node: Any) -> None:
    node = await start_node(SETTINGS, further_disks=(MemoryDisk(),))
    await node.create_topic("t", 2)
    producer = await Producer(node, 12).init()
    partition = node.node.broker.partitions.find("t", 0)
    assert await producer.write(b"aborted") == 0
    assert await producer.end(commit=False) == 0
    assert await producer.write(b"a") == 0
    before = partition.log
    [other] = [each for each in node.node.broker.partitions.logs if each.health is not before.health]
    moving = AlterReplicaLogDir(other.path, (AlterReplicaLogDirTopic("t", (0,)),))
    await producer.client.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, AlterReplicaLogDirsRequest((moving,)))
    assert await producer.write(b"b") == 0
    await node.turns(50)
    assert partition.log is not before
    node.node.broker.coordination.transactions.close(KeyError("nobody may ask"))
    assert await producer.write(b"c") == 0
    partition.append_marker(EndTransactionMarker(True, 0), producer.producer_id, producer.epoch + 1, 2, NOW_MS)
    values, aborted, stable = await committed(node)
    assert (values, stable) == ([b"aborted", MARKER, b"a", b"b", b"c", MARKER], 6)
    assert aborted == [(producer.producer_id, 0)]


async def test_a_topic_may_be_deleted_with_a_transaction_open(start_node: Any) -> None:
    producer = await producer_on(start_node, 12)
    node = producer.node
    assert await producer.write() == 0
    deleting = DeleteTopicsRequest(topics=(DeleteTopicState("t"),), timeout_ms=1_000)
    answer = await node.connect().ask(ApiKey.DELETE_TOPICS, 6, deleting)
    assert answer.responses[0].error_code == 0
    assert await producer.write() == 3
    assert await producer.end() == 0
    await node.create_topic("t", 2)
    assert await producer.write(b"new") == 0
    assert await producer.end() == 0
    assert await committed(node) == ([b"new", MARKER], [], 2)


@pytest.mark.parametrize(
    ("code", "by_version"),
    [
        (13, {3: 19, 11: 19, 12: 19}),
        (14, {3: 19, 11: 19, 12: 19}),
        (15, {3: 19, 11: 19, 12: 19}),
        (16, {3: 19, 11: 19, 12: 19}),
        (31, {3: 48, 11: 48, 12: 48}),
        (47, {3: 47, 11: 47, 12: 47}),
        (48, {3: 48, 11: 48, 12: 48}),
        (49, {3: 49, 11: 49, 12: 49}),
        (51, {3: 19, 11: 19, 12: 51}),
        (90, {3: 47, 11: 47, 12: 47}),
        (120, {3: 48, 10: 48, 11: 120, 12: 120}),
    ],
)
async def test_what_the_coordinator_refuses_is_said_in_the_words_of_the_version(
    code: int, by_version: dict[int, int]
) -> None:
    assert {version: refusal(code, version).code for version in by_version} == by_version
