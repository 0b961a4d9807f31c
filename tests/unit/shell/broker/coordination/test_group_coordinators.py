"""The group coordinators of a node: clocks that are set back, deleted topics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import pairwise
from typing import Any

import pytest

from moldau.core.groups.records import OffsetRecord, decode_group_record, encode_group_record
from moldau.errors import kafka_error
from moldau.shell.broker.coordination.shards import Shard, Shards
from moldau.shell.coordination.partition_log import PartitionLog
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.shell.io.simulated.workers import InlineWorkers
from moldau.shell.network.first_step import begun
from moldau.shell.network.pauses import TURN_THINGS, Pauses
from moldau.telemetry import BOUND_REACHED
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue
from moldau.wire.protocol.messages.groups_classic import (
    DescribeGroupsRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from moldau.wire.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from moldau.wire.records.builder import build_batch
from moldau.wire.records.control import EndTransactionMarker, build_end_transaction_batch
from tests.support.node import committed, offset_commit

pytestmark = pytest.mark.asyncio

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1"}
HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000


async def find_coordinator(client: Any) -> None:
    answer = await client.ask(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key="g"))
    assert answer.error_code == 0


async def with_coordinator(node: Any) -> Any:
    """A client, for which the topic of committed offsets is there."""
    client = node.connect()
    await find_coordinator(client)
    return client


async def join(client: Any, session_timeout_ms: int, group_id: str = "g") -> Any:
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=session_timeout_ms,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol("range", b"\x00"),),
    )
    return await client.ask(ApiKey.JOIN_GROUP, 3, request)


async def state_of_group(client: Any) -> str:
    answer = await client.ask(ApiKey.DESCRIBE_GROUPS, 4, DescribeGroupsRequest(groups=("g",)))
    return answer.groups[0].group_state


async def commit(client: Any, topic: str, offset: int) -> int:
    answer = await client.ask(ApiKey.OFFSET_COMMIT, 8, offset_commit(offset, topic=topic))
    return answer.topics[0].partitions[0].error_code


async def delete_topic(node: Any, name: str) -> None:
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name),), topic_names=(name,), timeout_ms=1_000)
    answer = await node.node.broker.submit(request)
    assert [result.error_code for result in answer.responses] == [0]


async def test_a_caller_that_wakes_after_a_second_creation_began_sees_its_own(start_node: Any) -> None:
    """Another broker created the topic, so the first creation ends before this broker's metadata names it."""
    node = await start_node(SETTINGS)
    broker = node.node.broker
    shards = Shards(broker.own_node, broker.partitions, "made-elsewhere", lambda _: asyncio.sleep(0), Shard)
    first = asyncio.ensure_future(shards.ensure_topic())
    await asyncio.sleep(0)
    later: list[Any] = []
    creating = shards._creating
    assert creating is not None
    creating.add_done_callback(lambda _: later.append(begun(shards.ensure_topic())))
    await first
    assert len(later) == 1
    assert shards._creating is not creating, "the second caller began a creation of its own"
    await later[0]


async def test_finding_a_coordinator_works_while_another_client_creates_the_topic(start_node: Any) -> None:
    node = await start_node(SETTINGS | {"offsets.topic.num.partitions": "100"})
    first, others = node.connect(), [node.connect() for _ in range(40)]
    first.send(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key="g"))
    for number, client in enumerate(others):
        client.send(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key="g"))
        await node.turns(1)
        for answer in client.answers():
            assert answer.error_code == 0
            assert (await join(client, 10_000, f"g{number}")).error_code == 0
    assert [answer.error_code for answer in first.answers()] == [0]


@pytest.mark.parametrize("step_ms", [-HOUR_MS, 0])
async def test_a_silent_member_is_out_after_its_session_though_the_clock_was_set_back(
    start_node: Any, step_ms: int
) -> None:
    node = await start_node(SETTINGS)
    client = await with_coordinator(node)
    assert (await join(client, session_timeout_ms=10)).error_code == 0
    node.clock.set_now(node.clock.now_ms() + step_ms)
    node.clock.advance(10)
    while await state_of_group(client) != "Empty":  # the loop's own timer fires within 10 ms
        await node.turns(1)


async def test_a_clock_that_is_set_forward_ends_no_session(start_node: Any) -> None:
    node = await start_node(SETTINGS)
    client = await with_coordinator(node)
    assert (await join(client, session_timeout_ms=30_000)).error_code == 0
    node.clock.set_now(node.clock.now_ms() + HOUR_MS)
    shard = node.node.broker.coordination.groups.shard_for("g")
    assert shard.host.next_deadline_ms() == node.clock.monotonic_ms() + 30_000
    assert await state_of_group(client) == "CompletingRebalance"


async def test_groups_past_the_bound_are_refused_and_counted(start_node: Any) -> None:
    node = await start_node({**SETTINGS, "moldau.groups": "1"})
    client = await with_coordinator(node)
    assert (await join(client, session_timeout_ms=30_000)).error_code == 0
    assert (await join(client, session_timeout_ms=30_000, group_id="other")).error_code == 81
    assert node.node.telemetry.value(BOUND_REACHED, "moldau.groups") == 1


async def test_commits_carry_the_time_that_people_read(node: Any, client: Any) -> None:
    await node.create_topic("t")
    await find_coordinator(client)
    node.clock.set_now(node.clock.now_ms() - HOUR_MS)
    assert await commit(client, "t", 5) == 0
    stored = node.node.broker.coordination.groups.shard_for("g").host.state.offsets["g"]["t"][0]
    assert stored.commit_timestamp == node.clock.now_ms()


async def test_a_topic_of_the_same_name_begins_without_committed_offsets(node: Any) -> None:
    await node.create_topic("t")
    await node.create_topic("other")
    client = await with_coordinator(node)
    assert await commit(client, "t", 5) == 0
    assert await commit(client, "other", 7) == 0
    await delete_topic(node, "t")
    await node.create_topic("t")
    assert await committed(client, "t") == -1
    assert await committed(client, "other") == 7


async def restarted(start_node: Any, node: Any, *, is_clean: bool, settings: dict[str, str] | None = None) -> Any:
    if is_clean:
        await node.node.stop()
    else:
        node.node.abort()
        node.disk.crash_process()
    return await start_node(settings, disk=node.disk)


@pytest.mark.parametrize("is_clean", [True, False])
async def test_a_deletion_reaches_groups_that_nobody_asked_since_the_start(start_node: Any, is_clean: bool) -> None:
    """Their log is read by then, or is read because of the deletion: a new topic of that name may come first."""
    node = await start_node()
    await node.create_topic("t")
    await node.create_topic("other")
    client = await with_coordinator(node)
    assert await commit(client, "t", 5) == 0
    assert await commit(client, "other", 7) == 0
    node = await restarted(start_node, node, is_clean=is_clean)
    await delete_topic(node, "t")
    await node.create_topic("t")
    client = node.connect()
    assert await committed(client, "t") == -1
    assert await committed(client, "other") == 7
    node = await restarted(start_node, node, is_clean=is_clean)
    client = node.connect()
    assert await committed(client, "t") == -1
    assert await committed(client, "other") == 7


async def test_offsets_of_a_topic_that_is_gone_are_forgotten_at_the_next_load(start_node: Any) -> None:
    """The node ended between the deletion and the groups' records of it."""
    node = await start_node()
    await node.create_topic("t")
    client = await with_coordinator(node)
    assert await commit(client, "t", 5) == 0
    shard = node.node.broker.coordination.groups.shard_for("g")
    shard.close(kafka_error("NOT_COORDINATOR"))
    await delete_topic(node, "t")
    node = await restarted(start_node, node, is_clean=False)
    client = node.connect()
    assert await committed(client, "t") == -1
    assert "t" not in node.node.broker.coordination.groups.shard_for("g").host.state.offsets.get("g", {})


async def test_a_topic_made_anew_while_its_coordinator_was_away_begins_without_positions(start_node: Any) -> None:
    node = await start_node()
    await node.create_topic("t")
    client = await with_coordinator(node)
    assert await commit(client, "t", 5) == 0
    node.node.broker.coordination.groups.shard_for("g").close(kafka_error("NOT_COORDINATOR"))
    await delete_topic(node, "t")
    await node.create_topic("t")
    node = await restarted(start_node, node, is_clean=False)
    client = node.connect()
    assert await committed(client, "t") == -1
    assert await commit(client, "t", 6) == 0
    assert await committed(client, "t") == 6


async def test_shards_are_loaded_one_after_the_other_and_with_pauses(start_node: Any) -> None:
    """Other clients are served meanwhile, with any number of commits in the logs."""
    settings = {**SETTINGS, "offsets.topic.num.partitions": "3"}
    node = await start_node(settings)
    count = 5 * TURN_THINGS
    await node.create_topic("t", count)
    client = await with_coordinator(node)
    groups = ("g", "h", "i")
    for group_id in groups:
        commits = offset_commit(7, group=group_id, partitions=range(count))
        await client.ask(ApiKey.OFFSET_COMMIT, 8, commits)
    node = await restarted(start_node, node, is_clean=False, settings=settings)
    coordinators = node.node.broker.coordination.groups
    shards = [coordinators.shard_for(group_id) for group_id in groups]
    assert len({shard.partition.number for shard in shards}) == len(groups)
    positions = [sum(shard.host.end_offset for shard in shards)]
    while any(shard.loading is not None for shard in shards):
        await node.turns(1)
        positions.append(sum(shard.host.end_offset for shard in shards))
    assert positions[-1] == len(groups) * count
    # between two looks the loop turns twice
    assert max(after - before for before, after in pairwise(positions)) <= 2 * TURN_THINGS


async def test_of_many_commits_of_a_position_only_the_last_is_decoded_at_a_load(start_node: Any) -> None:
    node = await start_node()
    await node.create_topic("t")
    client = await with_coordinator(node)
    for offset in range(100):
        assert await commit(client, "t", offset) == 0
    shard = node.node.broker.coordination.groups.shard_for("g")
    decoded: list[bytes] = []

    def count(key: Any, value: Any) -> Any:
        decoded.append(key)
        return decode_group_record(key, value)

    folded: list[Any] = []

    async def fold(records: Iterable[Any]) -> bool:
        folded.extend(records)
        return True

    pauses = Pauses(asyncio.get_running_loop(), None)
    log = PartitionLog(shard.partition, node.ports.workers, pauses, encode_group_record, count)
    await log.replay(fold)
    assert len(decoded) == 1
    assert [(loaded.offset, loaded.record.value.offset) for loaded in folded] == [(99, 99)]

    node = await restarted(start_node, node, is_clean=False)
    assert await committed(node.connect(), "t") == 99
    assert node.node.broker.coordination.groups.shard_for("g").host.state.offsets == shard.host.state.offsets


class SlowWorkers(InlineWorkers):
    """Something happens while a piece of work waits for its turn."""

    def __init__(self, happens: Callable[[], Awaitable[None]]) -> None:
        self._happens = happens

    async def run(self, work: Callable[[], Any]) -> Any:
        await self._happens()
        return work()


@pytest.mark.parametrize("event", ["it is moved", "retention"])
async def test_a_load_goes_on_in_a_log_that_is_another_one_meanwhile(start_node: Any, event: str) -> None:
    """It moves to another log directory, or begins later: some operators let retention delete from the topic, too."""
    node = await start_node(SETTINGS, further_disks=(MemoryDisk(),))
    await node.create_topic("t")
    client = await with_coordinator(node)
    partition = node.node.broker.coordination.groups.shard_for("g").partition
    for offset in range(4):
        assert await commit(client, "t", offset) == 0
        partition.log.roll(NOW_MS)
    (target,) = [each for each in node.node.broker.partitions.logs if partition.topic_partition not in each.logs]

    async def happen() -> None:
        if event == "it is moved":
            node.node.broker.moves.move(partition, target)
            await node.turns(50)
            assert partition.topic_partition in target.logs
        else:
            partition.log.advance_log_start_offset(3)

    folded: list[int] = []

    async def fold(records: Iterable[Any]) -> bool:
        folded.extend(record.offset for record in records)
        if folded == [0]:
            partition.log.disk.fail(Fault("read_cached", "cold", path_contains="__consumer_offsets", times=1))
        return True

    pauses = Pauses(asyncio.get_running_loop(), None)
    log = PartitionLog(partition, SlowWorkers(happen), pauses, encode_group_record, decode_group_record)
    await log.replay(fold)
    assert folded == [0, 3]


async def test_pending_commits_count_from_their_marker_on_whatever_came_between(start_node: Any) -> None:
    """As Apache Kafka writes them: a plain commit after a transaction's commit is newer than the transaction's."""
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    await node.create_topic("t")
    client = await with_coordinator(node)
    assert await commit(client, "t", 1) == 0
    node.node.abort()
    file = disk.open("__consumer_offsets-0/00000000000000000000.log")
    fields = {"producer_id": 9, "producer_epoch": 0}

    def offset_record(group_id: str, offset: int) -> tuple[bytes, bytes | None, int, tuple[()]]:
        value = OffsetCommitValue(offset=offset, commit_timestamp=NOW_MS)
        return (*encode_group_record(OffsetRecord(OffsetCommitKey(group_id, "t", 0), value)), NOW_MS, ())

    pending = [offset_record("g", 5), offset_record("h", 6)]
    file.append(build_batch(pending, base_offset=1, base_sequence=0, is_transactional=True, **fields))
    file.append(build_batch([offset_record("g", 3)], base_offset=3))
    file.append(build_end_transaction_batch(EndTransactionMarker(True, 0), timestamp=NOW_MS, base_offset=4, **fields))
    file.append(build_batch([offset_record("h", 2), offset_record("i", 8)], base_offset=5))
    node = await start_node(disk=disk)
    assert await committed(node.connect(), "t") == 3
    offsets = node.node.broker.coordination.groups.shard_for("g").host.state.offsets
    assert {group_id: topics["t"][0].offset for group_id, topics in offsets.items()} == {"g": 3, "h": 2, "i": 8}


async def test_a_record_that_nobody_can_write_is_refused_and_the_group_lives_on(node: Any, client: Any) -> None:
    """Its time does not fit into 64 bits: an unforeseen error."""
    await node.create_topic("t")
    await find_coordinator(client)
    node.clock.set_now(1 << 63)
    assert await commit(client, "t", 5) == -1
    node.clock.set_now(NOW_MS)
    assert await committed(client, "t") == -1
    assert await commit(client, "t", 6) == 0
    assert await committed(client, "t") == 6


async def test_a_log_that_cannot_be_read_is_told_to_those_who_wait_for_it(start_node: Any) -> None:
    node = await start_node()
    await node.create_topic("t")
    client = await with_coordinator(node)
    assert await commit(client, "t", 5) == 0
    node.node.abort()
    record = OffsetRecord(OffsetCommitKey("g", "t", 0), OffsetCommitValue(offset=6))
    key, value = encode_group_record(record)
    file = node.disk.open("__consumer_offsets-0/00000000000000000000.log")
    file.append(build_batch([(key, (value or b"")[:-1], NOW_MS, ())], base_offset=1))
    node = await start_node(disk=node.disk)
    assert await commit(node.connect(), "t", 6) == 15


async def test_what_is_due_at_once_comes_in_several_turns_of_the_loop(start_node: Any) -> None:
    """A check of many committed offsets takes several decisions; other clients are served between them."""
    node = await start_node(SETTINGS)
    client = await with_coordinator(node)
    for number in range(3):
        assert (await join(client, session_timeout_ms=10, group_id=f"g{number}")).error_code == 0
    shard = node.node.broker.coordination.groups.shard_for("g0")
    node.clock.advance(10)
    shard.fire()
    members = [len(group.members) for _, group in sorted(shard.host.state.groups.items())]
    assert sorted(members) == [0, 1, 1]
    while any(group.members for group in shard.host.state.groups.values()):
        await node.turns(1)


async def test_a_flush_that_ends_while_a_commit_is_taken_in_answers_that_commit(start_node: Any) -> None:
    """With a flush for every message: nothing is left to flush when the commit asks for it."""
    node = await start_node({**SETTINGS, "log.flush.interval.messages": "1"})
    count = 5 * TURN_THINGS
    await node.create_topic("t", count)
    client = await with_coordinator(node)
    shard = node.node.broker.coordination.groups.shard_for("g")
    client.send(ApiKey.OFFSET_COMMIT, 8, offset_commit(7, partitions=range(count)))
    while shard.partition.log.log_end_offset == 0:
        await node.turns(1)
    assert shard.host.end_offset < count - TURN_THINGS
    node.node.broker.partitions.flusher.request(shard.partition)
    answer = await client.answer()
    assert {row.error_code for row in answer.topics[0].partitions} == {0}
