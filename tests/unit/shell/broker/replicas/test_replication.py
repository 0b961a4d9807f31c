"""Brokers that follow each other, on the simulated network: all get the same records, and none is lost."""

from __future__ import annotations

import asyncio

import pytest

from moldau.core.metadata.image import NO_LEADER
from moldau.errors import ERROR_CODES, KafkaError
from moldau.shell.broker.traffic import REPLICATION_BYTES_IN, REPLICATION_BYTES_OUT
from moldau.shell.io.simulated.memory_disk import Fault
from moldau.shell.peers.peer import NoAnswerError
from moldau.types import BrokerId, Offset
from moldau.wire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.builder import build_batch
from tests.support.brokers import Brokers, run_brokers

NOT_ENOUGH = ERROR_CODES["NOT_ENOUGH_REPLICAS"]


def numbered(begin: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(begin, end)]


async def with_topic(brokers: Brokers, *replicas: int, **configs: str) -> None:
    """Topic t with one partition, held by all of these."""
    brokers.controller.create_topic("t", replicas, **configs)
    await brokers.until(lambda: all(brokers.machines[one].has_topic("t") for one in replicas), "the topic is there")


async def write(brokers: Brokers, broker_id: int, begin: int, end: int, acks: int = -1) -> None:
    for value in numbered(begin, end):
        assert await brokers.produce(broker_id, value, acks=acks) == 0


async def delete_below(brokers: Brokers, offset: int, timeout_ms: int = 30_000) -> tuple[int, int]:
    """The response of broker 1: the low watermark and an error code."""
    peer = brokers.peer(1)
    topic = DeleteRecordsTopic("t", (DeleteRecordsPartition(0, offset),))
    answer = await peer.request(DeleteRecordsRequest((topic,), timeout_ms), 60_000)
    peer.close()
    (row,) = answer.topics[0].partitions
    return row.low_watermark, row.error_code


def test_what_is_acknowledged_is_on_all_replicas() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2, 3)
        await write(brokers, 1, 0, 20)
        for machine in brokers.machines.values():
            assert machine.values() == numbered(0, 20)
        await brokers.until(brokers.is_whole, "the high watermark is known to all")

    run_brokers(story, count=3)


def test_bytes_between_brokers_are_counted_apart_from_those_of_clients() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2)
        await write(brokers, 1, 0, 5)
        leader, follower = (brokers.machines[one] for one in (1, 2))
        assert leader.broker is not None
        assert follower.broker is not None
        copied = leader.replica().appended_bytes
        assert copied > 0
        assert leader.broker.own_node.telemetry.value(REPLICATION_BYTES_OUT) == copied
        assert follower.broker.own_node.telemetry.value(REPLICATION_BYTES_IN) == copied
        assert (leader.replica().fetched_bytes, follower.replica().appended_bytes) == (0, 0)

    run_brokers(story)


def test_who_waits_for_the_flush_of_what_another_leader_cuts_waits_no_longer() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2)
        await write(brokers, 1, 0, 1)
        for ends in ((1, 2), (2, 1)):
            brokers.around.network.cut(f"broker-{ends[0]}", f"broker-{ends[1]}", 2)
        await write(brokers, 1, 1, 2, acks=1)
        broker, partition = brokers.machines[1].broker, brokers.machines[1].replica()
        assert broker is not None
        waiting = broker.partitions.flusher.wait(partition, Offset(2))
        brokers.controller.change(leader=BrokerId(2), isr=(2,))
        await brokers.until(waiting.done, "the wait ends")
        error = waiting.exception()
        assert isinstance(error, KafkaError)
        assert error.name == "NOT_LEADER_OR_FOLLOWER"
        assert partition.log.log_end_offset == 1
        with pytest.raises(KafkaError):
            broker.partitions.flusher.wait(partition, Offset(2))

    run_brokers(story)


def test_nobody_waits_for_the_flush_of_a_replica_that_was_removed() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2)
        await write(brokers, 1, 0, 1)
        broker, partition = brokers.machines[1].broker, brokers.machines[1].replica()
        assert broker is not None
        await write(brokers, 1, 1, 2, acks=1)
        partition.end()
        with pytest.raises(KafkaError) as refused:
            broker.partitions.flusher.wait(partition, Offset(2))
        assert refused.value.name == "UNKNOWN_TOPIC_OR_PARTITION"

    run_brokers(story)


def test_followers_have_it_on_the_disk_where_the_topic_asks_for_that() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2, 3, flush_messages="1")
        await write(brokers, 1, 0, 10)
        for machine in brokers.machines.values():
            assert machine.replica().log.recovery_point == 10

    run_brokers(story, count=3)


def test_acks_all_takes_milliseconds_and_no_long_poll() -> None:
    async def story(brokers: Brokers) -> None:
        for topic, configs in (("t", {}), ("u", {"flush_messages": "1"})):
            brokers.controller.create_topic(topic, (1, 2), **configs)
        await brokers.until(lambda: all(one.has_topic("u") for one in brokers.machines.values()))
        assert await brokers.produce(1, b"a", topic="u") == 0
        begin_s = brokers.around.loop.time()
        for number in range(20):
            assert await brokers.produce(1, b"a", topic="tu"[number % 2]) == 0
        assert brokers.around.loop.time() - begin_s < 20 * 0.2

    run_brokers(story)


def test_what_a_dead_leader_alone_had_is_cut_when_it_comes_back() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2)
        await write(brokers, 1, 0, 5)
        brokers.machines[2].stand_still()
        await write(brokers, 1, 100, 105, acks=1)
        brokers.machines[1].kill("process")
        brokers.machines[2].go_on()
        brokers.controller.fence(1)
        await brokers.until(lambda: brokers.machines[2].leads())
        await write(brokers, 2, 5, 8)
        await brokers.machines[1].start()
        await brokers.until(brokers.is_whole, "the old leader is in sync again")
        assert brokers.machines[1].values() == brokers.machines[2].values() == numbered(0, 8)

    run_brokers(story)


def test_a_cut_that_takes_no_record_is_not_told_in_the_log() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2)
        await write(brokers, 1, 0, 3)
        for leader in (2, 1):  # no record is appended in the epoch between
            brokers.controller.change(leader=BrokerId(leader))
            await brokers.until(brokers.machines[leader].leads)
        await write(brokers, 1, 3, 4)
        assert not [line for line in brokers.around.trace.told if "cut from offset" in line]

    run_brokers(story)


def test_a_broker_that_registers_anew_is_asked_anew_though_its_machine_went_silent() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2)
        others = brokers.machines[2].broker.others
        brokers.controller.fence(1)  # now: it must make no difference when the broker registers
        await brokers.pass_time(0.1)
        await others.ask(1, MetadataRequest(()), 30_000)
        brokers.machines[1].silent_share = 1.0
        brokers.machines[1].kill("machine")
        begin_s = brokers.around.loop.time()
        asked = asyncio.ensure_future(others.ask(1, MetadataRequest(()), 30_000))
        await brokers.machines[1].start()
        with pytest.raises(NoAnswerError):
            await asked
        await others.ask(1, MetadataRequest(()), 30_000)
        assert brokers.around.loop.time() - begin_s < 5

    run_brokers(story)


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_broker_that_stands_still_is_waited_for_until_it_is_fenced(is_connected: bool) -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2)
        others = brokers.machines[2].broker.others
        if is_connected:
            await others.ask(1, MetadataRequest(()), 30_000)
        brokers.machines[1].stand_still()
        begin_s = brokers.around.loop.time()
        asked = asyncio.ensure_future(others.ask(1, MetadataRequest(()), 30_000))
        await brokers.pass_time(1)
        assert not asked.done()
        brokers.controller.fence(1)
        with pytest.raises(NoAnswerError):
            await asked
        assert brokers.around.loop.time() - begin_s < 2

    run_brokers(story)


def test_a_follower_that_is_silent_leaves_the_in_sync_replicas_and_comes_back() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2, min_insync_replicas="2")
        await write(brokers, 1, 0, 3)
        brokers.machines[2].stand_still()
        written = asyncio.ensure_future(brokers.produce(1, b"3"))
        await brokers.until(lambda: brokers.controller.partition().isr == (1,), "the silent one leaves")
        assert await brokers.produce(1, b"refused", by="another") == NOT_ENOUGH
        assert not written.done()
        brokers.machines[2].go_on()
        await brokers.until(brokers.is_whole, "it comes back")
        assert await written == 0
        assert brokers.machines[2].values() == numbered(0, 4)

    run_brokers(story)


def test_an_append_below_min_insync_replicas_is_told_with_20() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2, 3, min_insync_replicas="2")
        await write(brokers, 1, 0, 3)
        for other in (2, 3):
            brokers.machines[other].stand_still()
        written = asyncio.ensure_future(brokers.produce(1, b"3", timeout_ms=5_000))
        assert await written in (
            ERROR_CODES["NOT_ENOUGH_REPLICAS_AFTER_APPEND"],
            ERROR_CODES["REQUEST_TIMED_OUT"],
        )
        assert brokers.controller.partition().isr == (1,)

    run_brokers(story, count=3)


def test_a_replica_that_is_new_begins_where_the_log_of_its_leader_does() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2)
        await write(brokers, 1, 0, 10)
        for one in (1, 2):
            brokers.machines[one].replica().log.advance_log_start_offset(7)
        brokers.controller.change(replicas=(1, 2, 3))
        await brokers.until(brokers.is_whole, "the new replica is in sync")
        log = brokers.machines[3].replica().log
        assert (log.log_start_offset, log.log_end_offset) == (7, 10)
        await write(brokers, 1, 10, 12)
        assert brokers.machines[3].values() == numbered(7, 12)
        brokers.machines[3].kill("process")
        await brokers.machines[3].start()
        await brokers.until(brokers.is_whole, "its log opens again")
        assert brokers.machines[3].values() == numbered(7, 12)

    run_brokers(story, count=3)


def test_the_log_start_offset_of_the_leader_reaches_its_followers() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2)
        await write(brokers, 1, 0, 10)
        brokers.machines[1].replica().log.advance_log_start_offset(6)
        await brokers.until(lambda: brokers.machines[2].replica().log.log_start_offset == 6)
        # their epochs agree: otherwise a start would take the checkpoint for damaged
        await brokers.until(lambda: not brokers.machines[2].replica().log.leader_epochs.is_dirty)

    run_brokers(story)


def test_without_a_leader_nothing_is_fetched_and_with_the_next_one_it_goes_on() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2)
        await write(brokers, 1, 0, 3)
        brokers.controller.change(leader=NO_LEADER)
        await brokers.pass_time(2)
        assert await brokers.produce(1, b"x") == ERROR_CODES["NOT_LEADER_OR_FOLLOWER"]
        brokers.controller.change(leader=BrokerId(2))
        await brokers.until(lambda: brokers.machines[2].leads())
        await write(brokers, 2, 3, 6)
        await brokers.until(brokers.is_whole)
        assert brokers.machines[1].values() == numbered(0, 6)

    run_brokers(story)


def test_a_follower_whose_disk_is_full_goes_on_when_there_is_room() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2)
        await write(brokers, 1, 0, 3)
        brokers.machines[2].limit_disks(0)
        written = asyncio.ensure_future(brokers.produce(1, b"3"))
        await brokers.pass_time(0.5)
        brokers.machines[2].limit_disks(None)
        assert await written == 0
        await brokers.until(brokers.is_whole)
        assert brokers.machines[2].values() == numbered(0, 4)

    run_brokers(story)


def test_a_follower_that_finds_no_room_to_begin_anew_knows_that_its_log_was_cut() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2)
        await write(brokers, 1, 0, 3)
        copy = brokers.machines[2]
        copy.stand_still()
        await write(brokers, 1, 3, 10)
        brokers.machines[1].replica().log.advance_log_start_offset(7)
        copy.disks[0].fail(Fault("write", "full", path_contains="leader-epoch-checkpoint"))
        copy.go_on()
        await brokers.until(lambda: copy.replica().log.log_end_offset == 0, "the log is cut")
        assert copy.replica().are_offsets_in_order
        copy.disks[0].heal()
        await brokers.until(brokers.is_whole, "there is room, and it is in sync again")
        assert copy.values() == numbered(7, 10)

    run_brokers(story)


def test_a_follower_with_a_failed_disk_goes_offline_and_the_others_continue() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2, 3)
        await write(brokers, 1, 0, 3)
        brokers.machines[2].disks[0].fail(Fault("append", path_contains="t-0"))
        assert await brokers.produce(1, b"3") == 0
        assert brokers.machines[2].replica().is_offline
        assert brokers.controller.partition().isr == (1, 3)

    run_brokers(story, count=3)


def test_records_are_deleted_when_all_live_replicas_have_dropped_them() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2, 3)
        await write(brokers, 1, 0, 10)
        brokers.machines[3].kill("process")
        brokers.controller.fence(3)
        assert await delete_below(brokers, 4) == (4, 0)
        assert brokers.machines[2].replica().log.log_start_offset == 4
        brokers.machines[2].stand_still()
        assert await delete_below(brokers, 6, timeout_ms=200) == (4, ERROR_CODES["REQUEST_TIMED_OUT"])
        deleting = asyncio.ensure_future(delete_below(brokers, 6))
        await brokers.pass_time(0.2)
        brokers.controller.fence(1)
        assert await deleting == (6, ERROR_CODES["NOT_LEADER_OR_FOLLOWER"])

    run_brokers(story, count=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
def test_nothing_acknowledged_is_lost_through_crashes_at_any_point(seed: int) -> None:
    async def story(brokers: Brokers) -> None:
        chance = brokers.random_of("story")
        configs = {"min_insync_replicas": "2", **({"flush_messages": "1"} if seed % 2 else {})}
        await with_topic(brokers, 1, 2, 3, **configs)
        acknowledged: list[bytes] = []
        is_over = False

        async def keep_writing() -> None:
            number = 0
            while not is_over:
                number += 1
                leader = brokers.controller.partition().leader
                if leader == NO_LEADER or await brokers.produce(leader, b"%d" % number, timeout_ms=2_000):
                    await brokers.pass_time(0.02)
                else:
                    acknowledged.append(b"%d" % number)

        writing = asyncio.ensure_future(keep_writing())
        for _ in range(8):
            await brokers.pass_time(chance.random() * 2)
            machine = chance.choice(list(brokers.machines.values()))
            kind = "machine" if "flush_messages" in configs and chance.random() < 0.5 else "process"
            if chance.random() < 0.7:
                machine.plan_crash(kind, chance.randrange(1, 40), chance)
                await brokers.until(lambda machine=machine: not machine.is_alive, "the planned crash comes")
            else:
                machine.kill(kind)
            await brokers.pass_time(chance.random() * 0.2)
            brokers.controller.fence(machine.broker_id)
            await brokers.pass_time(chance.random())
            await machine.start()
            await brokers.until(brokers.is_joined, "all are in sync again")
        is_over = True
        await writing
        await brokers.until(brokers.is_whole, "the end")
        logs = [machine.values() for machine in brokers.machines.values()]
        assert logs[0] == logs[1] == logs[2]
        places = {value: place for place, value in enumerate(logs[0])}
        order = [places[value] for value in acknowledged]
        assert order == sorted(order)
        assert len(acknowledged) > 50

    run_brokers(story, count=3, seed=seed)


def test_a_new_replica_takes_the_batch_inside_which_the_log_starts() -> None:
    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1, 2)
        assert await brokers.produce(1, *numbered(0, 10)) == 0
        await brokers.until(brokers.is_whole, "all is committed")
        assert await delete_below(brokers, 7) == (7, 0)
        brokers.controller.change(replicas=(1, 2, 3))
        await brokers.until(lambda: 3 in brokers.controller.partition().isr, "the new replica is in sync")
        log = brokers.machines[3].replica().log
        assert (log.log_start_offset, log.log_end_offset) == (7, 10)
        await write(brokers, 1, 10, 12)
        await brokers.until(brokers.is_whole, "all is committed")

    run_brokers(story, count=3)


def test_the_holes_that_a_new_replica_copied_are_no_damage_after_a_crash() -> None:
    """For a topic that was once compacted, but no longer is: only its leader knows that."""

    async def story(brokers: Brokers) -> None:
        await with_topic(brokers, 1)
        await write(brokers, 1, 0, 2)
        behind = bytearray(build_batch([(None, b"behind the hole", brokers.machines[1].clock.now_ms(), ())]))
        behind[:8] = (10).to_bytes(8, "big")
        brokers.machines[1].replica().log.append_copied(behind, brokers.machines[1].clock.now_ms())
        await write(brokers, 1, 11, 12)
        brokers.controller.change(replicas=(1, 2))
        await brokers.until(lambda: 2 in brokers.controller.partition().isr, "the new replica is in sync")
        copy = brokers.machines[2]
        await brokers.pass_time(1)
        assert b"t 0 1" in copy.disks[0].read_file("cleaner-offset-checkpoint")
        copy.kill("process")
        await copy.start()
        await brokers.until(brokers.is_whole, "all is committed")
        assert copy.replica().log.may_have_holes
        assert copy.values() == [b"0", b"1", b"behind the hole", b"11"]
        records = copy.replica().log.read(5, max_bytes=1_000, end_offset=12, may_wait=True).records
        assert next(header.base_offset for _, header in iterate_batches(bytes(records or b""))) == 10

    run_brokers(story)
