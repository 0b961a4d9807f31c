"""The quorum of one: durable before it responds, the same after a restart, honest about a failing disk."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.log.directories.room import SPARE_FILE, keep_spare
from moldau.core.metadata.features import served_features
from moldau.core.metadata.image import MetadataDelta, MetadataImage
from moldau.errors import KafkaError
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.network.node_parts import NodeFailures
from moldau.shell.network.pauses import TURN_THINGS
from moldau.shell.node.recover import recover_alone
from moldau.shell.quorum.metadata_log import load_snapshot
from moldau.shell.quorum.quorum_state import QUORUM_STATE, QuorumError
from moldau.shell.quorum.role import QuorumRole, VoterIdentity
from moldau.types import BrokerId, TopicPartition, Uuid
from moldau.wire.protocol.messages.producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from moldau.wire.protocol.messages.raft_records import Endpoint
from moldau.wire.protocol.messages.topics import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from moldau.wire.records.batch import iterate_batches, write_crc
from tests.support.quorum import (
    CONTROLLER,
    METADATA_LOG,
    NODE,
    GatedWorkers,
    Node,
    codes,
    create,
    grow,
    stop,
    turn,
)

pytestmark = pytest.mark.asyncio


def block(first: int) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=1000)


async def test_a_first_start_makes_a_cluster_with_kafkas_features() -> None:
    role = await Node().start()
    assert (role.leader_epoch, role.high_watermark) == (1, 12)
    assert role.image.features["metadata.version"] == 30
    assert role.image.cluster_defaults() == {"min.insync.replicas": "1"}
    assert served_features(role.finalized_features())["kraft.version"] == 1
    await stop(role)


async def test_topics_configs_and_producer_ids_survive_a_clean_restart_and_a_crash() -> None:
    node = Node()
    role = await node.start_with_broker()
    assert await codes(role, create("a", "b", partitions=2)) == [0, 0]
    assert await role.submit(AllocateProducerIdsRequest(NODE, node.broker_epoch)) == block(0)
    await node.shut_down_broker(role)
    await stop(role)
    role = await node.start_with_broker()
    assert role.leader_epoch == 2
    partition = role.image.partition(TopicPartition("a", 1))
    assert partition is not None
    assert (partition.leader, partition.leader_epoch, partition.leader_recovery_state) == (1, 2, 0)
    role.abort()
    node.disk.crash_machine(SeededRandom(4))
    node.broker_epoch = -1
    role = await node.start_with_broker()
    assert role.leader_epoch == 3
    assert list(role.image.topics_by_name) == ["a", "b"]
    assert await role.submit(AllocateProducerIdsRequest(NODE, node.broker_epoch)) == block(1000)
    await stop(role)


@pytest.mark.parametrize("seed", range(30))
async def test_whatever_was_answered_survives_a_crash_of_the_machine(seed: int) -> None:
    node = Node()
    random = SeededRandom(seed)
    kept: list[str] = []
    for life in range(4):
        role = await node.start_with_broker()
        assert all(name in role.image.topics_by_name for name in kept)
        epochs = role.leader_epoch
        assert epochs == life + 1
        for number in range(random.random_below(6)):
            name = f"t{life}-{number}"
            assert await codes(role, create(name)) == [0]
            kept.append(name)
        if kept and random.random_below(2):
            gone = kept.pop(random.random_below(len(kept)))
            await role.submit(DeleteTopicsRequest((DeleteTopicState(gone),), (), 1000))
        waiting = asyncio.ensure_future(role.submit(create(f"unanswered-{life}")))
        role.abort()
        waiting.cancel()
        node.disk.crash_machine(random)
        node.broker_epoch = -1


async def test_nothing_is_answered_or_shown_before_it_is_flushed_and_one_flush_serves_many() -> None:
    node = Node()
    role = await node.start_with_broker()
    await stop(role)
    workers = GatedWorkers()
    workers.gate.set()
    role = await node.start(workers)
    workers.gate.clear()
    workers.runs = 0
    seen: list[int] = []
    role.subscribe(lambda image, delta: seen.append(delta.end_offset))
    before = role.high_watermark
    asked = [asyncio.ensure_future(role.submit(create(f"t{number}"))) for number in range(5)]
    for _ in range(5):
        await turn()
    assert not any(one.done() for one in asked)
    assert role.high_watermark == before
    assert role.image.topic("t0") is None
    workers.gate.set()
    await asyncio.gather(*asked)
    assert workers.runs <= 2
    assert role.high_watermark == before + 10
    assert seen == [before, *range(before + 2, before + 11, 2)]
    await stop(role)


async def test_a_second_request_sees_what_the_first_decided_although_it_is_not_flushed_yet() -> None:
    node = Node()
    role = await node.start_with_broker()
    first, second = await asyncio.gather(codes(role, create("a")), codes(role, create("a")))
    assert (first, second) == ([0], [36])
    await stop(role)


async def test_subscribers_hear_of_a_change_before_its_request_is_answered() -> None:
    role = await Node().start_with_broker()
    told: list[tuple[list[str], list[TopicPartition]]] = []

    def subscriber(image: MetadataImage, delta: MetadataDelta) -> None:
        told.append(([topic.name for topic in delta.topics.values() if topic], list(delta.partitions)))
        assert image.end_offset == delta.end_offset

    role.subscribe(subscriber)
    assert told == [([], [])]
    await role.submit(create("a", partitions=2))
    assert told[-1] == (["a"], [TopicPartition("a", 0), TopicPartition("a", 1)])
    late: list[MetadataDelta] = []
    role.subscribe(lambda image, delta: late.append(delta))
    assert [topic.name for topic in late[0].topics.values() if topic] == ["a"]
    assert list(late[0].brokers) == [1]
    await stop(role)


async def test_a_full_disk_refuses_the_request_and_the_next_one_tries_again() -> None:
    node = Node()
    role = await node.start_with_broker()
    end_offset = role.log.log_end_offset
    node.disk.fail(Fault("append", "full", METADATA_LOG, 1))
    with pytest.raises(KafkaError) as caught:
        await role.submit(create("a"))
    assert (caught.value.code, caught.value.is_retriable) == (56, True)
    assert role.log.log_end_offset == end_offset
    assert not role.is_offline
    assert await codes(role, create("a")) == [0]
    await stop(role)


@pytest.mark.parametrize(("operation", "path"), [("append", METADATA_LOG), ("write", QUORUM_STATE)])
async def test_the_spare_file_makes_room_for_the_metadata(operation: Literal["append", "write"], path: str) -> None:
    node = Node()
    keep_spare(node.disk)
    node.disk.fail(Fault(operation, "full", path, 1))
    role = await node.start_with_broker()
    assert not node.disk.exists(SPARE_FILE)
    assert await codes(role, create("a")) == [0]
    assert not role.is_offline
    await stop(role)


@pytest.mark.parametrize("operation", ["append", "flush"])
async def test_a_failed_device_takes_the_role_offline(operation: str) -> None:
    node = Node()
    role = await node.start_with_broker()
    assert await codes(role, create("kept")) == [0]
    node.disk.fail(Fault(operation, "io", "__cluster_metadata-0", 1))  # type: ignore[arg-type]
    results = await asyncio.gather(role.submit(create("a")), role.submit(create("b")), return_exceptions=True)
    assert [result.code for result in results if isinstance(result, KafkaError)] == [56, 56]
    assert role.is_offline
    with pytest.raises(KafkaError):
        await role.submit(create("c"))
    assert list(role.image.topics_by_name) == ["kept"]
    await stop(role)
    node.disk.heal()
    node.disk.crash_machine(SeededRandom(2))
    role = await node.start()
    assert "kept" in role.image.topics_by_name
    await stop(role)


@pytest.mark.parametrize("turns", range(1, 25, 4))
async def test_a_flush_that_fails_during_a_long_request_answers_all_and_keeps_commits(turns: int) -> None:
    node = Node()
    workers = GatedWorkers()
    workers.gate.set()
    role = await node.start_with_broker(workers)
    workers.gate.clear()
    many = create(*(f"t{number}" for number in range(5 * TURN_THINGS)))
    asked = [asyncio.ensure_future(role.submit(create("first")))]
    await turn()
    asked += [asyncio.ensure_future(role.submit(request)) for request in (many, create("behind"))]
    for _ in range(turns):
        await turn()
    node.disk.fail(Fault("flush", "io", "__cluster_metadata-0", 1))
    workers.gate.set()
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert [result.code for result in results if isinstance(result, KafkaError)] == [56] * 3
    with pytest.raises(KafkaError) as caught:
        await role.submit(create("late"))
    assert (caught.value.code, role.is_offline, node.broken) == (56, True, [])
    assert not role.image.topics_by_name
    await stop(role)


async def test_a_clean_stop_makes_the_note_of_the_flushed_offset_durable_once() -> None:
    workers = GatedWorkers()
    workers.gate.set()
    role = await Node().start_with_broker(workers)
    workers.runs = 0
    await stop(role)
    assert workers.runs == 1


async def test_a_stopped_role_refuses() -> None:
    role = await Node().start()
    await stop(role)
    with pytest.raises(KafkaError) as caught:
        await role.submit(create("a"))
    assert caught.value.code == 41


async def test_a_directory_of_another_quorum_is_refused_in_one_sentence() -> None:
    node = Node()
    role = QuorumRole(
        identity=VoterIdentity(BrokerId(2), "c", Uuid(b"\x05" * 16), (CONTROLLER,)),
        settings=parse_broker_settings({}),
        node=node.parts(),
        failures=NodeFailures(node.broken.append, lambda: None),
    )
    with pytest.raises(QuorumError, match="the voters of this cluster are 1: node 2 is none of them"):
        await role.start()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"not json", "cannot be read"),
        (b'{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"A","data_version":9}', "version 9"),
        (b'{"data_version":1}', "cannot be read"),
        # a flipped bit, found by seed 35 of the simulator
        (b'{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"A\xc1","data_version":1}', "cannot be read"),
        (
            b'{"leaderId":-1,"leaderEpoch":3,"votedId":1,"votedDirectoryId":"[CkqKywtLi8wMTIzNDU2Nw","data_version":1}',
            "quorum-state cannot be read: not a uuid: '.CkqKywtLi8wMTIzNDU2Nw'",
        ),
    ],
)
async def test_a_quorum_state_that_cannot_be_read_stops_the_start(text: bytes, said: str) -> None:
    node = Node()
    node.disk.replace_file(QUORUM_STATE, text)
    with pytest.raises(QuorumError, match=said):
        await node.start()


async def test_the_epoch_in_quorum_state_is_never_used_again() -> None:
    node = Node()
    node.disk.replace_file(
        QUORUM_STATE,
        b'{"leaderId":1,"leaderEpoch":41,"votedId":1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
    )
    role = await node.start()
    assert role.leader_epoch == 42
    assert node.disk.read_file(QUORUM_STATE) == (
        b'{"leaderId":1,"leaderEpoch":42,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    await stop(role)


async def test_static_voters_of_an_older_cluster_are_kept_in_quorum_state() -> None:
    node = Node()
    node.disk.remove("__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")
    old = (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":5,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[%s],"data_version":0}'
    )
    node.disk.replace_file(QUORUM_STATE, old % b'{"voterId":1},{"voterId":2}')
    with pytest.raises(QuorumError, match="the voters of this cluster are 1, 2"):
        await node.start()
    node.disk.replace_file(QUORUM_STATE, old % b'{"voterId":1}')
    role = await node.start()
    assert node.disk.read_file(QUORUM_STATE) == (old % b'{"voterId":1}').replace(b":5,", b":6,")
    assert role.finalized_features()["kraft.version"] == 0
    await stop(role)


async def test_a_record_that_cannot_be_applied_is_named_by_its_offset() -> None:
    node = Node()
    role = await node.start_with_broker()
    await role.submit(create("a"))
    topic = role.image.topic("a")
    assert topic is not None
    await stop(role)
    content = node.disk.read_file(METADATA_LOG)
    name = content.rindex(b"\x02a" + topic.topic_id)
    broken = bytearray(content)
    broken[name + 2] ^= 0xFF
    for position, header in iterate_batches(content):
        write_crc(broken, position, header.size)
    file = node.disk.open(METADATA_LOG)
    file.write_at(0, broken)
    with pytest.raises(QuorumError, match=r"__cluster_metadata-0 stopped at offset \d+: PartitionRecord cannot"):
        await node.start()


def snapshots(disk: MemoryDisk) -> list[str]:
    return [name for name in disk.list_directory("__cluster_metadata-0") if ".checkpoint" in name][1:]


async def stopped_with_snapshots() -> tuple[Node, QuorumRole]:
    """A node that has made 40 topics and written snapshots, and the role that it had."""
    node = Node(metadata_log_max_record_bytes_between_snapshots="2000")
    role = await node.start_with_broker()
    await grow(role, "t", 40)
    await node.shut_down_broker(role)
    await stop(role)
    return node, role


async def test_snapshots_follow_the_log_and_a_start_folds_only_what_is_newer() -> None:
    node, role = await stopped_with_snapshots()
    names = list(role.image.topics_by_name)
    assert len(snapshots(node.disk)) == 2
    newest = load_snapshot(node.disk)
    assert 0 < newest.end_offset <= role.high_watermark
    assert newest.leader_epoch == 1
    role = await node.start_with_broker()
    assert sorted(role.image.topics_by_name) == sorted(names)
    assert role.finalized_features()["kraft.version"] == 1
    assert role.image.next_producer_id == 0
    await stop(role)


@pytest.mark.parametrize("damage", ["emptied", "cut", "flipped"])
async def test_a_damaged_snapshot_that_was_to_replace_the_log_costs_nothing_of_it(damage: str) -> None:
    node, role = await stopped_with_snapshots()
    names = list(role.image.topics_by_name)
    whole = node.disk.read_file(f"__cluster_metadata-0/{snapshots(node.disk)[-1]}")
    flipped = whole[:200] + bytes((whole[200] ^ 1,)) + whole[201:]
    path = "__cluster_metadata-0/00000000000000000900-0000000007.checkpoint"
    node.disk.replace_file(path + ".replacing", {"emptied": b"", "cut": whole[:-9], "flipped": flipped}[damage])
    role = await node.start_with_broker()
    assert sorted(role.image.topics_by_name) == sorted(names)
    assert role.log.log_start_offset == 0
    assert f"{path}.replacing: damaged: the log that the snapshot was to replace is used instead" in (
        role.health.findings
    )
    assert node.disk.exists(path + ".damaged")
    assert not node.disk.exists(path + ".replacing")
    await stop(role)


async def test_a_recovered_quorum_survives_a_crash_before_a_snapshot_replaced_the_log() -> None:
    node, role = await stopped_with_snapshots()
    path = f"__cluster_metadata-0/{snapshots(node.disk)[-1]}"
    node.disk.rename(path, path + ".replacing")
    recover_alone(node.disk, (), Endpoint("CONTROLLER", "elsewhere", 9093), now_ms=node.clock.now_ms())
    role = await node.start()
    (voter,) = role.voters.voters
    assert [point.host for point in voter.endpoints] == ["elsewhere"]
    assert role.image.topics_by_name
    await stop(role)


def log_segments(disk: MemoryDisk) -> list[str]:
    return [name for name in disk.list_directory("__cluster_metadata-0") if name.endswith((".log", ".deleted"))]


@pytest.mark.parametrize("setting", ["metadata_max_retention_ms", "metadata_max_retention_bytes"])
async def test_segments_before_the_oldest_snapshot_go_when_they_are_old_or_many(setting: str) -> None:
    kept = {"metadata_log_segment_ms": "1000", "metadata_log_max_record_bytes_between_snapshots": "2000"}
    unlimited = {"metadata_max_retention_ms": "-1", "metadata_max_retention_bytes": "-1"}
    node = Node(**kept, **{**unlimited, setting: "3000"})
    role = await node.start_with_broker()
    for number in range(60):
        node.clock.advance(500)
        await grow(role, f"t{number}-", 1)
    assert role.log.log_start_offset > 0
    newest = load_snapshot(node.disk)
    assert role.log.log_start_offset <= newest.end_offset
    assert len(log_segments(node.disk)) < 25
    assert len(snapshots(node.disk)) == 2
    names = sorted(role.image.topics_by_name)
    await stop(role)
    role = await node.start_with_broker()
    assert sorted(role.image.topics_by_name) == names
    assert await codes(role, create("again")) == [0]
    await stop(role)


async def test_without_a_limit_every_segment_stays() -> None:
    node = Node(
        metadata_log_segment_ms="1000",
        metadata_log_max_record_bytes_between_snapshots="2000",
        metadata_max_retention_ms="-1",
        metadata_max_retention_bytes="-1",
    )
    role = await node.start_with_broker()
    for number in range(30):
        node.clock.advance(500)
        await grow(role, f"t{number}-", 1)
    assert role.log.log_start_offset == 0
    assert len(log_segments(node.disk)) > 10
    await stop(role)


async def test_after_an_hour_a_log_that_has_grown_gets_a_snapshot() -> None:
    node = Node()
    role = await node.start_with_broker()
    await grow(role, "a", 1)
    assert snapshots(node.disk) == []
    node.clock.advance(3_600_000)
    await grow(role, "b", 1)
    assert len(snapshots(node.disk)) == 1
    await stop(role)


@pytest.mark.parametrize("seed", range(20))
async def test_a_crash_while_a_snapshot_is_written_costs_nothing(seed: int) -> None:
    node = Node(metadata_log_max_record_bytes_between_snapshots="1500")
    random = SeededRandom(seed)
    kept: list[str] = []
    for life in range(3):
        role = await node.start_with_broker()
        assert all(name in role.image.topics_by_name for name in kept)
        for number in range(12):
            assert await codes(role, create(f"t{life}-{number}")) == [0]
            kept.append(f"t{life}-{number}")
            for _ in range(random.random_below(3)):
                await turn()
        role.abort()
        node.disk.crash_machine(random)
        node.broker_epoch = -1


@pytest.mark.parametrize(("error", "is_offline"), [("full", False), ("io", True)])
async def test_a_snapshot_that_cannot_be_written_costs_only_itself(error: str, is_offline: bool) -> None:
    node = Node(metadata_log_max_record_bytes_between_snapshots="1000")
    role = await node.start_with_broker()
    node.disk.fail(Fault("append" if error == "full" else "flush", error, ".part", 1))  # type: ignore[arg-type]
    await grow(role, "t", 6 if error == "full" else 1)
    assert not any(name.endswith(".part") for name in snapshots(node.disk)) or is_offline
    for _ in range(20):
        await turn()
    assert role.is_offline == is_offline
    await stop(role)


async def test_our_own_mistake_answers_everybody_and_is_told() -> None:
    node = Node()
    role = await node.start_with_broker()

    def subscriber(image: MetadataImage, delta: MetadataDelta) -> None:
        if "bad" in image.topics_by_name:
            raise ZeroDivisionError

    role.subscribe(subscriber)
    assert await codes(role, create("good")) == [0]
    with pytest.raises(KafkaError) as caught:
        await role.submit(create("bad"))
    assert caught.value.code == -1
    assert ["ZeroDivisionError" in str(error) for error in node.broken] == [True]
    role.abort()


async def test_after_records_that_nobody_can_write_the_controller_decides_on() -> None:
    """Their time does not fit into 64 bits."""
    node = Node()
    role = await node.start_with_broker()
    now_ms = node.clock.now_ms()
    node.clock.set_now(1 << 63)
    with pytest.raises(KafkaError) as caught:
        await role.submit(AllocateProducerIdsRequest(NODE, node.broker_epoch))
    assert caught.value.code == -1
    node.clock.set_now(now_ms)
    assert isinstance(
        await role.submit(AllocateProducerIdsRequest(NODE, node.broker_epoch)), AllocateProducerIdsResponse
    )
    await stop(role)
