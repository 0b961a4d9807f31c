"""The checks of a start after a flipped bit."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from moldau.core.groups.records import OffsetRecord, encode_group_record
from moldau.core.log.files.checkpoint import LOG_START_OFFSET_CHECKPOINT, encode_offsets
from moldau.errors import DamagedLogError
from moldau.shell.io.simulated.clock import DEFAULT_NOW_MS
from moldau.simulation.client import BrokerClient
from moldau.simulation.client_world import SimulatedTopic
from moldau.simulation.flipped_bits import (
    BASE_OFFSET_BYTES,
    Copy,
    Flip,
    FlippedStart,
    disk_of,
    draw_flip,
    end_of_records,
    tree_of,
)
from moldau.simulation.flipped_reading import LastRecord, Position, held_by, is_last
from moldau.simulation.kinds import settings_of
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.scenario import Scenario
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.producers import PlainProducer
from moldau.simulation.world import World
from moldau.types import TopicPartition, Uuid
from moldau.wire.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue
from moldau.wire.records.builder import build_batch
from moldau.wire.records.record import read_records

TOPIC = SimulatedTopic("t", Uuid(bytes(16)), 1)
SEGMENT = "t-0/00000000000000000000.log"
LATER_SEGMENT = "t-0/00000000000000000004.log"
DAMAGED, OUT_OF_RANGE, NOT_COORDINATOR = 2, 1, 16


def batch(base_offset: int) -> bytes:
    return bytes(build_batch([(None, b"value", DEFAULT_NOW_MS, ())] * 2, base_offset=base_offset))


def offsets_in(tree):
    return [found.base_offset for found in held_by([tree], [TOPIC]).batches]


def test_the_whole_batches_of_a_copy_end_where_a_crash_tore_the_log():
    tree = {SEGMENT: batch(0) + batch(2), LATER_SEGMENT: batch(4) + batch(6)[:-1]}
    assert offsets_in(tree) == [0, 2, 4]
    assert offsets_in(tree | {LATER_SEGMENT: batch(6)}) == [0, 2]
    starts = encode_offsets({TopicPartition("t", 0): 2})
    assert offsets_in(tree | {LOG_START_OFFSET_CHECKPOINT: starts}) == [2, 4]


COMPACTED = SimulatedTopic("c", Uuid(bytes(16)), 1, is_compacted=True)
COMPACTED_SEGMENT = "c-0/00000000000000000000.log"


def keyed(base_offset, *pairs):
    return bytes(build_batch([(key, value, DEFAULT_NOW_MS, ()) for key, value in pairs], base_offset=base_offset))


def test_of_a_compacted_topic_the_last_record_of_each_key_must_be_there():
    tree = {COMPACTED_SEGMENT: keyed(0, (b"a", b"1"), (b"b", b"1")) + keyed(5, (b"a", b"2")) + keyed(9, (b"b", None))}
    held = held_by([tree], [COMPACTED])
    assert [(last.key, last.offset, last.value) for last in held.keys] == [(b"a", 5, b"2"), (b"b", 9, None)]
    assert held.batches == []
    hit = held.without(lambda batch: batch.base_offset == 9)
    assert [last.key for last in hit.keys] == [b"a"]
    assert held_by([tree | {"c-0/00000000000000000000.log.x.cleaned": b""}], [COMPACTED]).keys == []


def test_the_last_record_of_a_key_is_intact_and_a_tombstone_hides_older_ones():
    tree = {COMPACTED_SEGMENT: keyed(0, (b"a", b"1"), (b"b", b"1")) + keyed(5, (b"a", b"2")) + keyed(9, (b"b", None))}
    last_a, last_b = held_by([tree], [COMPACTED]).keys
    records = {record.offset: record for record in read_records(keyed(5, (b"a", b"2")))}
    assert is_last(last_a, records)
    assert is_last(last_b, records)
    older = {record.offset: record for record in read_records(keyed(0, (b"a", b"1"), (b"b", b"1")))}
    assert not is_last(last_a, older)
    assert not is_last(last_b, older)
    changed = {record.offset: record for record in read_records(keyed(5, (b"a", b"3")))}
    assert not is_last(last_a, changed)


def commit(base_offset, offset, partition=0):
    key = OffsetCommitKey("g", "t", partition)
    value = None if offset is None else OffsetCommitValue(offset=offset, commit_timestamp=DEFAULT_NOW_MS)
    return keyed(base_offset, encode_group_record(OffsetRecord(key, value)))


def test_the_last_committed_offset_of_each_partition_must_be_there():
    data = commit(0, 7) + commit(1, 8) + commit(2, 9, partition=1) + commit(3, None, partition=1)
    held = held_by([{"__consumer_offsets-0/00000000000000000000.log": data}], [TOPIC])
    assert [(p.group, p.topic, p.partition, p.offset) for p in held.positions] == [("g", "t", 0, 8), ("g", "t", 1, -1)]
    assert held_by([{"__consumer_offsets-0/00000000000000000000.log": data}], [COMPACTED]).positions == []


def test_a_flip_is_never_one_that_no_start_can_see():
    records = batch(0) + batch(2)
    tree = {
        "compacted-0/00000000000000000000.log": records,
        ".lock": b"1",
        "t-0.0123-delete/00000000000000000000.log": records,
        "empty": b"",
    }
    random = Random(1)
    begins = (0, len(records) // 2)
    for _ in range(500):
        flip = draw_flip([tree], random)
        assert flip.path.startswith("compacted-0/")
        assert not any(begin <= flip.position < begin + BASE_OFFSET_BYTES for begin in begins)


def test_the_records_of_a_segment_end_behind_the_zeros_that_belong_to_its_last_batch():
    records = batch(0) + batch(2)
    assert records[-1] == 0
    assert end_of_records(records + bytes(100)) == len(records)
    assert end_of_records(records[:-1]) == len(records.rstrip(b"\0"))
    assert end_of_records(bytes(100)) == 0


def test_a_disk_made_from_a_tree_holds_the_tree():
    tree = {SEGMENT: b"records", "meta.properties": b"x", "other-0/": b""}
    assert tree_of(disk_of(tree)) == tree


def start_flipped(check, position, *, is_stopped=True):
    """Flushes three batches, ends the node, flips a bit at `position` of the log, and calls `check(start)`."""
    loop = VirtualLoop()
    world = World(1, loop, settings_of(1))

    async def run():
        scenario = Scenario(world, 0)
        assert await world.broker.boot()
        await scenario.create_topic("flushed", 1, {"flush.messages": "1"})
        topic = scenario.topics[0]
        producer = PlainProducer(world, "producer", topic)
        client = await BrokerClient.open(world.network, "producer", world.broker.host, producer.random)
        for _ in range(3):
            request = producer.make_request(client, {0: batch(0)}, -1)
            await client.request(request)
        if is_stopped:
            await world.broker.stop()
        else:
            world.broker.kill("process")
        copy = Copy([tree_of(disk) for disk in world.broker.disks], is_power_lost=False)
        held = held_by(copy.trees, scenario.topics)
        flip = Flip(0, "flushed-0/00000000000000000000.log", position(len(held.batches[0].data)), 2)
        return await check(FlippedStart(world, scenario.topics, copy, held, flip))

    try:
        return loop.run_until_complete(run())
    finally:
        world.end_work()
        loop.close()


def test_what_a_group_and_a_key_lost_is_found():
    async def check(start):
        assert await start.machine.start() is None
        batch = start.held.batches[0]
        start.held.positions.append(Position(batch, "g", "flushed", 0, 5, start.world.broker.clock.now_ms()))
        start.held.positions.append(Position(batch, "g", "flushed", 0, 5, 0))  # it may have expired
        start.held.keys.append(LastRecord(batch, batch.base_offset, b"key", b"other"))
        # no group has ever committed here, so the coordinator does not exist
        assert await start.hidden() == [(batch, 0), (batch, NOT_COORDINATOR)]
        start.machine.kill("process", is_told=False)

    start_flipped(check, lambda size: size + 70)


@pytest.mark.parametrize("position", [lambda size: size + 8, lambda size: size + 70, lambda size: 2 * size + 1])
@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_node_serves_or_reports_all_that_one_flipped_bit_left(position, is_stopped):
    async def check(start):
        assert len(start.held.batches) == 2
        await start.run()

    start_flipped(check, position, is_stopped=is_stopped)


def test_what_is_hidden_must_be_reported_and_what_is_reported_must_be_on_the_disk():
    async def check(start):
        assert await start.machine.start() is None
        hidden = [(start.held.batches[0], DAMAGED)]
        start.machine.log.lines.clear()
        with pytest.raises(ViolationError, match="is not served: 2"):
            start.check_reported(hidden)
        start.machine.log.lines.append("flushed-0/00000000000000000000.log: bytes 1 to 2 are damaged")
        start.check_reported(hidden)
        start.machine.log.lines.append("cut 100 bytes of flushed-0/00000000000000000000.log, a stray")
        with pytest.raises(ViolationError, match="is not served: 1"):
            start.check_reported([(start.held.batches[0], OUT_OF_RANGE)])
        start.check_bytes()
        start.machine.disks[0].remove(start.held.batches[0].path)
        with pytest.raises(ViolationError, match="is gone from the disk"):
            start.check_bytes()
        start.machine.kill("process", is_told=False)

    start_flipped(check, lambda size: size + 70)


def test_a_refusal_is_one_sentence_about_the_place_and_changes_no_record():
    async def check(start):
        assert await start.machine.start() is None
        refusal = DamagedLogError(f"{start.flip.path} is damaged from byte 7 on")
        start.check_refusal(refusal)
        for error in (DamagedLogError("something is damaged"), DamagedLogError(f"{refusal}\nmore"), ValueError("x")):
            with pytest.raises(ViolationError, match="a flipped bit hides nothing"):
                start.check_refusal(error)
        swapped = "other-0/00000000000000000000.log.swap"
        start.flipped[0][swapped] = start.copy.trees[0][swapped] = b"a start gives it its name"
        start.check_refusal(refusal)
        deleted = "deleted-0/00000000000000000000.log"
        start.flipped[0][deleted] = start.copy.trees[0][deleted] = b"a start removes it"
        with pytest.raises(ViolationError, match="a refused start changed"):
            start.check_refusal(refusal)
        start.machine.log.lines.append("log WARNING /directory-0/deleted-0 belongs to a deleted topic and is removed")
        start.check_refusal(refusal)
        file = start.machine.disks[0].open(start.flip.path)
        for size in (file.size() - 1, 0):  # the last byte of a batch is zero: it has no headers
            file.truncate(size)
            with pytest.raises(ViolationError, match="a refused start changed"):
                start.check_refusal(refusal)

    start_flipped(check, lambda size: size + 70)


def test_a_node_that_asks_its_disk_without_end_breaks_a_rule():
    async def check(start):
        start.machine.max_calls = 20
        task = asyncio.ensure_future(start.machine.start())
        await asyncio.sleep(1)
        task.cancel()
        return start.world.failed.result().rule

    assert start_flipped(check, lambda size: size + 70) == "nothing hangs"
