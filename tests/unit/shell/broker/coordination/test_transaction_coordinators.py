"""The transaction coordinators of a node: from FindCoordinator to the markers, over crashes and deleted topics."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from moldau.core.transactions.records import encode_transaction_record
from moldau.core.transactions.state import TransactionMetadata, TransactionRecord, TransactionState
from moldau.shell.broker.coordination.transaction_markers import MAX_TRIES
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.shell.network.rights import ALTER_CLUSTER, CLUSTER_ACTION
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from moldau.wire.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    EndTxnRequest,
    ListTransactionsRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from moldau.wire.records.builder import build_batch
from moldau.wire.records.control import ControlType, decode_control_key
from moldau.wire.records.record import read_records
from tests.support.authorizers import AllBut
from tests.support.logs import batches_in

pytestmark = pytest.mark.asyncio

SETTINGS = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "1"}


async def find(client: Any, name: str = "tx") -> None:
    answer = await client.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=name, key_type=1))
    assert answer.error_code == 0


async def init(
    client: Any, timeout_ms: int = 60_000, name: str = "tx", version: int = 5, ids: tuple[int, int] = (-1, -1)
) -> tuple[int, int, int]:
    request = InitProducerIdRequest(name, timeout_ms, *(ids if version >= 3 else ()))
    answer = await client.ask(ApiKey.INIT_PRODUCER_ID, version, request)
    return answer.error_code, answer.producer_id, answer.producer_epoch


async def add(
    client: Any, producer_id: int, epoch: int, *topics: tuple[str, int], name: str = "tx", version: int = 3
) -> list[int]:
    rows = tuple(AddPartitionsToTxnTopic(topic, (index,)) for topic, index in topics or (("t", 0),))
    request = AddPartitionsToTxnRequest((), name, producer_id, epoch, rows)
    answer = await client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)
    return [
        row.partition_error_code for topic in answer.results_by_topic_v3_and_below for row in topic.results_by_partition
    ]


async def end(
    client: Any, producer_id: int, epoch: int, *, commit: bool = True, version: int = 5, name: str = "tx"
) -> tuple[int, int, int]:
    answer = await client.ask(ApiKey.END_TXN, version, EndTxnRequest(name, producer_id, epoch, commit))
    return answer.error_code, answer.producer_id, answer.producer_epoch


async def described(client: Any, name: str = "tx") -> Any:
    answer = await client.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest((name,)))
    (one,) = answer.transaction_states
    return one


async def become(node: Any, client: Any, state: str) -> None:
    while (await described(client)).transaction_state != state:
        await node.turns(1)


def markers(node: Any, topic: str = "t", index: int = 0) -> list[tuple[int, int, bool]]:
    """(producer id, epoch, is a commit) of each marker in the log of the partition."""
    log = node.node.broker.partitions.find(topic, index).log
    found = []
    for header, batch in batches_in(log):
        if header.is_control:
            (record,) = read_records(batch)
            is_commit = decode_control_key(record.key) is ControlType.COMMIT
            found.append((header.producer_id, header.producer_epoch, is_commit))
    return found


def write_in_transaction(node: Any, producer_id: int, epoch: int, topic: str = "t") -> None:
    batch = build_batch(
        [(None, b"v", 0, ())], producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True
    )
    node.node.broker.partitions.find(topic, 0).append_own(bytearray(batch), 0)


async def begun(start_node: Any, disk: MemoryDisk | None = None, **settings: str) -> tuple[Any, Any, int]:
    """A node with topic t and a transaction with a record in it."""
    more = {name.replace("_", "."): value for name, value in settings.items()}
    node = await start_node(SETTINGS | more, disk=disk or MemoryDisk())
    await node.create_topic("t", 2)
    client = node.connect()
    await find(client)
    code, producer_id, epoch = await init(client)
    assert (code, epoch) == (0, 0)
    assert await add(client, producer_id, 0) == [0]
    write_in_transaction(node, producer_id, 0)
    return node, client, producer_id


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize(("version", "epoch"), [(3, 0), (4, 0), (5, 1)])
@pytest.mark.parametrize("flush", ["1", "9223372036854775807"])
async def test_an_ended_transaction_has_its_marker_and_the_next_one_begins(
    start_node: Any, commit: bool, version: int, epoch: int, flush: str
) -> None:
    node, client, producer_id = await begun(start_node, log_flush_interval_messages=flush)
    partition = node.node.broker.partitions.find("t", 0)
    assert partition.last_stable_offset == 0
    answer = await end(client, producer_id, 0, commit=commit, version=version)
    assert answer == (0, *((producer_id, 1) if version == 5 else (-1, -1)))
    await become(node, client, "CompleteCommit" if commit else "CompleteAbort")
    assert markers(node) == [(producer_id, epoch, commit)]
    assert partition.last_stable_offset == partition.log.log_end_offset == 2
    assert await add(client, producer_id, epoch, ("t", 1)) == [0]
    assert (await described(client)).topics[0].partitions == (1,)


async def test_on_a_single_node_the_answer_comes_behind_the_markers_and_needs_no_turn(start_node: Any) -> None:
    node, client, producer_id = await begun(start_node)
    client.send(ApiKey.END_TXN, 5, EndTxnRequest("tx", producer_id, 0, True))
    client.send(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(("tx",)))
    ended, described = client.answers()
    assert ended.error_code == 0
    assert described.transaction_states[0].transaction_state == "CompleteCommit"
    assert markers(node) == [(producer_id, 1, True)]
    assert node.node.broker.coordination.transactions.markers.in_flight == 0


async def test_with_several_brokers_the_client_is_answered_before_the_markers(start_node: Any) -> None:
    node, client, producer_id = await begun(start_node)
    brokers = node.node.broker.image.brokers
    brokers[9] = brokers[1]
    client.send(ApiKey.END_TXN, 5, EndTxnRequest("tx", producer_id, 0, True))
    assert [answer.error_code for answer in client.answers()] == [0]
    assert markers(node) == []
    await node.turns(1)
    assert markers(node) == [(producer_id, 1, True)]


async def test_no_marker_is_written_before_the_decision_is_on_the_disk(start_node: Any) -> None:
    node, client, producer_id = await begun(start_node, log_flush_interval_messages="1")
    client.send(ApiKey.END_TXN, 5, EndTxnRequest("tx", producer_id, 0, True))
    broker = node.node.broker
    log = broker.coordination.transactions.shard_for("tx").partition
    decided = log.log.log_end_offset
    assert log.high_watermark < decided
    while not markers(node):
        assert not client.answers()
        await node.turns(1)
    assert log.high_watermark >= decided
    while not client.answers():
        await node.turns(1)
    await become(node, client, "CompleteCommit")


@pytest.mark.parametrize("commit", [True, False])
async def test_after_a_crash_what_was_decided_is_ended_though_nobody_asks(start_node: Any, commit: bool) -> None:
    disk = MemoryDisk()
    node, client, producer_id = await begun(start_node, disk)
    disk.fail(Fault("append", "full", path_contains="t-0/"))
    client.send(ApiKey.END_TXN, 5, EndTxnRequest("tx", producer_id, 0, commit))
    await node.turns(1)
    assert [answer.error_code for answer in client.answers()] == [0]
    assert markers(node) == []
    node.node.abort()
    disk.heal()

    node = await start_node(SETTINGS, disk=disk)
    while not markers(node):
        await node.turns(1)
    assert markers(node) == [(producer_id, 1, commit)]
    client = node.connect()
    await become(node, client, "CompleteCommit" if commit else "CompleteAbort")
    assert await end(client, producer_id, 0, commit=commit) == (0, producer_id, 1), "it had no answer"


@pytest.mark.parametrize(("version", "code"), [(4, 0), (5, 90)])
async def test_a_late_end_of_an_earlier_transaction(start_node: Any, version: int, code: int) -> None:
    """The client gave up on an EndTxn, ended the transaction by a second one and began the next; then the first
    arrives. v2 rejects it. In v1 it is indistinguishable from an end of the open transaction:
    docs/reference/compatibility.md."""
    node, client, producer_id = await begun(start_node)
    late = EndTxnRequest("tx", producer_id, 0, True)
    assert (await end(client, producer_id, 0, version=version))[0] == 0
    await become(node, client, "CompleteCommit")
    epoch = 1 if version == 5 else 0
    assert await add(client, producer_id, epoch) == [0]
    write_in_transaction(node, producer_id, epoch)
    assert (await client.ask(ApiKey.END_TXN, version, late)).error_code == code
    await node.turns(5)
    partition = node.node.broker.partitions.find("t", 0)
    is_open = partition.last_stable_offset < partition.log.log_end_offset
    assert is_open == (version == 5)
    assert len(markers(node)) == (1 if version == 5 else 2)


@pytest.mark.parametrize("full", ["t-0/", "__transaction_state-"])
async def test_an_end_that_finds_the_disk_full_goes_on_when_there_is_room(start_node: Any, full: str) -> None:
    disk = MemoryDisk()
    node, client, producer_id = await begun(start_node, disk)
    disk.fail(Fault("append", "full", path_contains="t-0/"))
    client.send(ApiKey.END_TXN, 5, EndTxnRequest("tx", producer_id, 0, True))
    await node.turns(1)
    assert [answer.error_code for answer in client.answers()] == [0], "nor does it wait for a retry"
    if not full.startswith("t-"):
        disk.heal()
        disk.fail(Fault("append", "full", path_contains=full))
        while not markers(node):
            await node.turns(1)
    await node.turns(5)
    coordinators = node.node.broker.coordination.transactions
    assert coordinators.markers.in_flight == 1
    assert markers(node) == ([] if full.startswith("t-") else [(producer_id, 1, True)])
    disk.heal()
    await become(node, client, "CompleteCommit")
    assert markers(node) == [(producer_id, 1, True)]
    while coordinators.markers.in_flight:
        await node.turns(1)
    assert coordinators.markers.retries > 0


async def test_after_a_crash_an_open_transaction_has_what_is_left_of_its_time(start_node: Any) -> None:
    disk = MemoryDisk()
    node, _, producer_id = await begun(start_node, disk)
    node.node.abort()
    node = await start_node(SETTINGS, disk=disk)
    client = node.connect()
    while (await described(client)).error_code:
        await node.turns(1)
    assert (await described(client)).transaction_state == "Ongoing"
    shard = node.node.broker.coordination.transactions.shard_for("tx")
    node.clock.advance(60_000)
    shard.fire()
    await become(node, client, "CompleteAbort")
    assert markers(node) == [(producer_id, 1, False)]
    assert (await end(client, producer_id, 0, version=4))[0] == 90
    assert (await end(client, producer_id, 0, version=1))[0] == 47
    assert (await end(client, producer_id, 0, version=5))[0] == 48
    assert await end(client, producer_id, 0, commit=False) == (0, producer_id, 1)


async def test_a_second_producer_aborts_the_open_transaction_of_the_first(start_node: Any) -> None:
    node, client, producer_id = await begun(start_node)
    other = node.connect()
    assert (await init(other))[0] == 51
    await become(node, other, "CompleteAbort")
    assert await init(other) == (0, producer_id, 2)
    assert markers(node) == [(producer_id, 1, False)]
    assert await add(client, producer_id, 0) == [90]
    assert await add(client, producer_id, 0, version=1) == [47]
    assert (await init(client, version=4, ids=(producer_id, 0)))[0] == 90
    assert (await init(client, version=3, ids=(producer_id, 0)))[0] == 47


async def test_a_partition_whose_topic_is_deleted_needs_no_marker(start_node: Any) -> None:
    node, client, producer_id = await begun(start_node)
    await node.create_topic("other")
    assert await add(client, producer_id, 0, ("other", 0)) == [0]
    request = DeleteTopicsRequest(topics=(DeleteTopicState("t"),), topic_names=("t",), timeout_ms=1_000)
    await node.node.broker.submit(request)
    assert (await end(client, producer_id, 0))[0] == 0
    await become(node, client, "CompleteCommit")
    assert markers(node, "other") == [(producer_id, 1, True)]


async def test_a_transaction_with_a_partition_that_cannot_be_written_waits_alone(start_node: Any) -> None:
    node, client, producer_id = await begun(start_node)
    assert await add(client, producer_id, 0, ("t", 1)) == [0]
    partition = node.node.broker.partitions.find("t", 0)
    partition.is_offline = True
    assert (await end(client, producer_id, 0))[0] == 0
    await find(client, "ty")
    _, other_id, _ = await init(client, name="ty")
    assert await add(client, other_id, 0, ("t", 1), name="ty") == [0]
    assert (await end(client, other_id, 0, name="ty"))[0] == 0
    while (await described(client, "ty")).transaction_state != "CompleteCommit":
        await node.turns(1)
    waiting = await described(client)
    assert waiting.transaction_state == "PrepareCommit"
    assert [(topic.topic, topic.partitions) for topic in waiting.topics] == [("t", (0,))]  # without t-1: it is marked
    assert await add(client, producer_id, 1, ("t", 1)) == [51]
    partition.is_offline = False
    await become(node, client, "CompleteCommit")
    assert markers(node) == [(producer_id, 1, True)]


async def test_any_number_of_transactions_that_cannot_end_hold_up_no_other(start_node: Any) -> None:
    node, client, _ = await begun(start_node)
    ending = node.node.broker.coordination.transactions.markers
    partition = node.node.broker.partitions.find("t", 0)
    partition.is_offline = True
    for number in range(MAX_TRIES + 1):
        name = f"held-up-{number}"
        _, producer_id, epoch = await init(client, name=name)
        assert await add(client, producer_id, epoch, name=name) == [0]
        assert (await end(client, producer_id, epoch, name=name))[0] == 0
    assert ending.in_flight == MAX_TRIES + 1
    _, producer_id, epoch = await init(client, name="other")
    assert await add(client, producer_id, epoch, ("t", 1), name="other") == [0]
    assert (await end(client, producer_id, epoch, name="other"))[0] == 0
    await node.turns(2)
    assert (await described(client, "other")).transaction_state == "CompleteCommit"
    partition.is_offline = False
    while ending.in_flight:
        await node.turns(1)
    assert (await described(client, "held-up-0")).transaction_state == "CompleteCommit"


async def test_the_partition_of_a_group_joins_and_gets_its_marker(start_node: Any) -> None:
    node, client, producer_id = await begun(start_node)
    answer = await client.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, AddOffsetsToTxnRequest("tx", producer_id, 0, "g"))
    assert answer.error_code == 0
    topics = {topic.topic: topic.partitions for topic in (await described(client)).topics}
    assert topics == {"t": (0,), "__consumer_offsets": (0,)}
    assert (await end(client, producer_id, 0, version=4))[0] == 0
    await become(node, client, "CompleteCommit")
    assert markers(node, "__consumer_offsets") == [(producer_id, 0, True)]


async def test_one_partition_that_cannot_join_keeps_the_others_out(start_node: Any) -> None:
    _, client, producer_id = await begun(start_node)
    assert await add(client, producer_id, 0, ("t", 1), ("unknown", 0), ("t", 9)) == [55, 3, 3]
    assert await add(client, producer_id, 0, ("t", 1), ("__consumer_offsets", 0)) == [55, 29]
    assert (await described(client)).topics[0].partitions == (0,)


@pytest.mark.parametrize("version", [4, 5])
async def test_brokers_ask_about_many_transactions_at_once(start_node: Any, version: int) -> None:
    _, client, producer_id = await begun(start_node)
    topics = (AddPartitionsToTxnTopic("t", (0, 1)),)

    def asked(producer_id: int, epoch: int, *, verify_only: bool, name: str = "tx") -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(name, producer_id, epoch, verify_only, topics)

    request = AddPartitionsToTxnRequest(
        (
            asked(producer_id, 0, verify_only=True),
            asked(producer_id, 1, verify_only=True),
            asked(producer_id, 0, verify_only=False, name="unknown"),
            asked(producer_id, 0, verify_only=False),
        )
    )
    answer = await client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)
    codes = [
        [row.partition_error_code for topic in result.topic_results for row in topic.results_by_partition]
        for result in answer.results_by_transaction
    ]
    assert codes == [[0, 120], [90, 90], [49, 49], [0, 0]]


async def test_an_administrator_ends_a_transaction_that_hangs(start_node: Any) -> None:
    node, client, producer_id = await begun(start_node)
    topics = (
        WritableTxnMarkerTopic("t", (0, 9)),
        WritableTxnMarkerTopic("unknown", (0,)),
        WritableTxnMarkerTopic("__transaction_state", (0,)),
    )
    marker = WritableTxnMarker(producer_id, 0, False, topics, coordinator_epoch=-1)
    answer = await client.ask(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest((marker,)))
    (result,) = answer.markers
    codes = {topic.name: [row.error_code for row in topic.partitions] for topic in result.topics}
    assert codes == {"t": [0, 3], "unknown": [3], "__transaction_state": [17]}
    assert markers(node) == [(producer_id, 0, False)]
    assert node.node.broker.partitions.find("t", 0).last_stable_offset == 2
    assert (await end(client, producer_id, 0))[0] == 0
    await become(node, client, "CompleteCommit")


async def test_only_brokers_verify_and_only_they_and_administrators_write_markers(start_node: Any) -> None:
    node, client, producer_id = await begun(start_node)
    marker = WritableTxnMarker(producer_id, 0, False, (WritableTxnMarkerTopic("t", (0,)),))
    verification = AddPartitionsToTxnRequest((AddPartitionsToTxnTransaction("tx", producer_id, 0, True),))

    async def codes() -> tuple[int, int]:
        verified = await client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 4, verification)
        written = await client.ask(ApiKey.WRITE_TXN_MARKERS, 2, WriteTxnMarkersRequest((marker,)))
        return verified.error_code, written.markers[0].topics[0].partitions[0].error_code

    dispatcher = node.node.dispatcher
    dispatcher.authorizer = AllBut(CLUSTER_ACTION, ALTER_CLUSTER)
    assert await codes() == (31, 31)
    assert markers(node) == []
    dispatcher.authorizer = AllBut(CLUSTER_ACTION)
    assert await codes() == (31, 0)
    dispatcher.authorizer = AllBut(ALTER_CLUSTER)
    assert await codes() == (0, 0)


async def test_transactions_are_listed_by_state_and_pattern(start_node: Any) -> None:
    _, client, producer_id = await begun(start_node)
    await init(client, name="app")

    async def names(**filters: Any) -> tuple[int, list[str], tuple[str, ...]]:
        answer = await client.ask(ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest(**filters))
        found = sorted(one.transactional_id for one in answer.transaction_states)
        return answer.error_code, found, answer.unknown_state_filters

    assert await names() == (0, ["app", "tx"], ())
    assert await names(state_filters=("Ongoing", "ongoing")) == (0, ["tx"], ("ongoing",))
    assert await names(state_filters=("nonsense",)) == (0, [], ("nonsense",))
    assert await names(producer_id_filters=(producer_id,)) == (0, ["tx"], ())
    assert await names(transactional_id_pattern="a.*|zz") == (0, ["app"], ())
    assert await names(transactional_id_pattern="") == (0, ["app", "tx"], ())
    assert await names(transactional_id_pattern="(") == (128, [], ())
    assert await names(duration_filter=1_000_000, state_filters=("Ongoing",)) == (0, [], ())
    assert (await described(client, "unknown")).error_code == 105


async def test_whoever_did_not_look_for_a_coordinator_is_sent_to_look_for_one(start_node: Any) -> None:
    node = await start_node(SETTINGS)
    client = node.connect()
    assert (await init(client))[0] == 16
    assert (await init(client, name=""))[0] == 42
    assert [(await init(client, timeout_ms=each))[0] for each in (0, 900_001, 900_000)] == [50, 50, 16]
    assert (await described(client, "")).error_code == 42
    answer = await client.ask(ApiKey.END_TXN, 3, EndTxnRequest("tx", 1, 0, True))
    assert answer.error_code == 16


async def test_a_record_that_cannot_be_read_stops_its_coordinator_alone(start_node: Any, caplog: Any) -> None:
    disk = MemoryDisk()
    node, _, _ = await begun(start_node, disk)
    broker = node.node.broker
    shard = broker.coordination.transactions.shard_for("tx")
    metadata = TransactionMetadata(1, 0, TransactionState.ONGOING, 1_000)
    key, value = encode_transaction_record(TransactionRecord("tx", metadata))
    assert value is not None
    shard.partition.append_own(bytearray(build_batch([(key, value[:-4], 0, ())])), 0)
    node.node.abort()

    node = await start_node(SETTINGS, disk=disk)
    client = node.connect()
    code = (await init(client))[0]
    while code == 14:
        code = (await init(client))[0]
    assert code == 15
    assert "transactions are not served" in caplog.text
    coordinators = node.node.broker.coordination.transactions
    other = next(name for name in "abcdefgh" if coordinators.shard_for(name) is not coordinators.shard_for("tx"))
    assert (await init(client, name=other))[0] == 0
    listed = await client.ask(ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest())
    assert (listed.error_code, [one.transactional_id for one in listed.transaction_states]) == (0, [other])


async def test_a_pattern_of_transactional_ids_survives_long_names(start_node: Any) -> None:
    node = await start_node(SETTINGS)
    client = node.connect()
    name = "x" * 30_000 + "\n"
    await find(client, name)
    code, producer_id, _ = await init(client, name=name)
    assert code == 0
    answer = await client.ask(ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest(transactional_id_pattern="(x+)+y"))
    assert (answer.error_code, answer.transaction_states) == (0, ())
    assert (await end(client, producer_id, 0, commit=False, name=name))[0] == 0


async def test_an_internal_topic_that_nobody_waits_for_any_more_and_that_fails_is_no_news(start_node: Any) -> None:
    node = await start_node(SETTINGS)
    unheard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    transactions = node.node.broker.coordination.transactions
    node.node.abort()
    waiting = asyncio.ensure_future(transactions.ensure_topic())
    await asyncio.sleep(0)  # it sends a request, and its client leaves
    waiting.cancel()
    await node.turns(5)
    assert "NOT_CONTROLLER" in repr(transactions._creating)
    transactions._creating = None
    del waiting  # and with it the frames that know the creation
    gc.collect()
    await node.turns(1)
    assert unheard == []
