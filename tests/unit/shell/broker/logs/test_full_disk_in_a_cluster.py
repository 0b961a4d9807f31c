"""Three brokers and a full disk: others lead where they can, none crashes, and all returns with room."""

from __future__ import annotations

from itertools import pairwise

import pytest

from moldau.core.log.directories.room import SPARE_BYTES, SPARE_FILE
from moldau.core.metadata.image import LOST_DIRECTORY, NO_LEADER
from moldau.errors import ERROR_CODES
from moldau.shell.io.simulated.memory_disk import Fault
from moldau.types import BrokerId
from moldau.wire.protocol.messages.metadata import MetadataRequest
from tests.support.brokers import BrokerMachine, Brokers, directory_of, run_brokers
from tests.support.stories import run_by

STORAGE_ERROR = ERROR_CODES["KAFKA_STORAGE_ERROR"]
NOT_LEADER = ERROR_CODES["NOT_LEADER_OR_FOLLOWER"]


def fill(machine: BrokerMachine) -> None:
    machine.disks[0].fail(Fault("append", "full", path_contains="-0/"))


async def with_topics(brokers: Brokers, **topics: tuple[int, ...]) -> None:
    """Each with one partition, and a record in it."""
    for name, replicas in topics.items():
        brokers.controller.create_topic(name, replicas)
        holders = [brokers.machines[one] for one in replicas]
        await brokers.until(lambda holders=holders, name=name: all(each.has_topic(name) for each in holders))
        assert await brokers.produce(replicas[0], b"first", topic=name) == 0


@run_by(run_brokers, count=3)
async def test_a_leader_without_room_gives_all_that_it_leads_in_that_directory_to_others(brokers: Brokers) -> None:
    await with_topics(brokers, t=(1, 2, 3), quiet=(1, 3))
    fill(brokers.machines[1])
    assert await brokers.produce(1, b"refused") == STORAGE_ERROR
    await brokers.until(lambda: brokers.leader().broker_id == 2, "another in-sync replica leads")
    await brokers.until(lambda: brokers.leader("quiet").broker_id == 3, "also where nothing was refused")
    await brokers.until(lambda: brokers.machines[2].leads())
    assert await brokers.produce(2, b"second") == 0
    assert brokers.machines[2].values() == brokers.machines[3].values() == [b"first", b"second"]
    assert brokers.machines[1].replica("quiet").is_following(1)


@run_by(run_brokers, count=3)
async def test_a_replica_that_had_no_room_is_in_sync_again_and_may_lead_once_there_is_some(brokers: Brokers) -> None:
    await with_topics(brokers, t=(1, 2, 3))
    fill(brokers.machines[1])
    assert await brokers.produce(1, b"refused") == STORAGE_ERROR
    await brokers.until(lambda: brokers.machines[2].leads())
    assert await brokers.produce(2, b"second") == 0
    assert 1 not in brokers.controller.partition().isr
    assert brokers.controller.partition().directories[0] == LOST_DIRECTORY
    brokers.machines[1].disks[0].heal()
    await brokers.until(brokers.is_whole, "all replicas are in sync")
    assert brokers.controller.partition().directories[0] == directory_of(1)
    brokers.controller.change(leader=BrokerId(1))
    await brokers.until(lambda: brokers.machines[1].leads())
    assert await brokers.produce(1, b"third") == 0


@run_by(run_brokers)
async def test_a_leader_without_a_possible_successor_stays_and_is_read_on_a_full_disk(brokers: Brokers) -> None:
    await with_topics(brokers, t=(1,), u=(1, 2))
    brokers.machines[2].kill("process")
    brokers.controller.fence(2)
    fill(brokers.machines[1])
    for topic in ("t", "u"):
        assert await brokers.produce(1, b"refused", topic=topic) == STORAGE_ERROR
    await brokers.pass_time(3)
    assert [brokers.leader(topic).broker_id for topic in ("t", "u")] == [1, 1]
    assert [brokers.machines[1].values(topic) for topic in ("t", "u")] == [[b"first"], [b"first"]]
    await brokers.machines[2].start()
    while brokers.leader("u").broker_id == 1:  # until the other replica is in sync again
        assert await brokers.produce(1, b"refused", topic="u") in (STORAGE_ERROR, NOT_LEADER)
        await brokers.pass_time(0.5)
    assert brokers.leader().broker_id == 1
    brokers.machines[1].disks[0].heal()
    await brokers.pass_time(10)
    assert await brokers.produce(1, b"second") == 0


@run_by(run_brokers, count=3)
async def test_a_follower_without_room_leaves_the_in_sync_replicas_at_once(brokers: Brokers) -> None:
    await with_topics(brokers, t=(1, 2, 3))
    fill(brokers.machines[3])
    began_s = brokers.around.loop.time()
    assert await brokers.produce(1, b"second") == 0
    assert brokers.around.loop.time() - began_s < 0.5
    assert brokers.controller.partition().isr == (1, 2)
    assert not brokers.machines[3].replica().is_offline
    brokers.machines[3].disks[0].heal()
    await brokers.until(brokers.is_whole)


@run_by(run_brokers, count=3)
async def test_a_follower_that_was_told_to_be_in_sync_while_nothing_came_leaves_once_more(brokers: Brokers) -> None:
    await with_topics(brokers, t=(1, 2, 3))
    fill(brokers.machines[3])
    assert await brokers.produce(1, b"second") == 0
    brokers.controller.change(isr=(1, 2, 3))
    assert await brokers.produce(1, b"third") == 0
    await brokers.until(lambda: brokers.controller.partition().isr == (1, 2))


@run_by(run_brokers)
async def test_a_full_replica_leads_and_is_read_again_when_the_leader_is_gone(brokers: Brokers) -> None:
    await with_topics(brokers, t=(1, 2))
    fill(brokers.machines[1])
    assert await brokers.produce(1, b"refused") == STORAGE_ERROR
    await brokers.until(lambda: brokers.machines[2].leads())
    await brokers.until(lambda: brokers.controller.partition().isr == (2, 1), "it has all that the leader has")
    brokers.machines[2].kill("process")
    brokers.controller.change(isr=(1,), leader=NO_LEADER)
    await brokers.until(lambda: brokers.machines[1].leads(), "nobody else can lead")
    assert brokers.machines[1].values() == [b"first"]


@run_by(run_brokers)
async def test_a_partition_that_finds_no_room_to_begin_is_led_by_another_replica(brokers: Brokers) -> None:
    await with_topics(brokers, t=(1, 2))
    brokers.machines[1].disks[0].fail(Fault("write", "full", path_contains="new-0/"))
    brokers.controller.create_topic("new", (1, 2))
    await brokers.until(lambda: brokers.leader("new").broker_id == 2)
    await brokers.until(lambda: brokers.machines[2].leads("new"))
    assert await brokers.produce(2, b"v", topic="new", acks=1) == 0


@run_by(run_brokers, count=3)
async def test_room_that_comes_and_goes_moves_no_leader_to_and_fro(brokers: Brokers) -> None:
    await with_topics(brokers, t=(1, 2, 3))
    first = brokers.machines[1]
    fill(first)
    assert await brokers.produce(1, b"refused") == STORAGE_ERROR
    await brokers.until(lambda: brokers.machines[2].leads())
    epoch = brokers.controller.partition().leader_epoch
    said: list[bool] = []
    end_s = brokers.around.loop.time() + 600
    while brokers.around.loop.time() < end_s:
        assert await brokers.produce(2, b"v") == 0
        said.append(brokers.controller.partition().directories[0] == LOST_DIRECTORY)
        await brokers.pass_time(1)
    assert brokers.controller.partition().leader_epoch == epoch
    changes = sum(before != after for before, after in pairwise(said))
    assert 0 < changes <= 20  # after 1, 2, 4 ... seconds


@run_by(run_brokers)
async def test_the_metadata_has_room_of_its_own_on_a_disk_that_records_have_filled(brokers: Brokers) -> None:
    await with_topics(brokers, t=(1, 2))
    disk = brokers.machines[1].disks[0]
    await brokers.until(lambda: disk.exists(SPARE_FILE))
    disk.capacity_bytes = disk.used_bytes() + 100
    assert await brokers.produce(1, b"v" * 200) == STORAGE_ERROR
    assert not disk.exists(SPARE_FILE)
    assert disk.capacity_bytes - disk.used_bytes() > SPARE_BYTES
    await brokers.until(lambda: brokers.machines[2].leads())
    assert await brokers.produce(2, b"v" * 200) == 0
    await brokers.pass_time(3)
    assert disk.capacity_bytes - disk.used_bytes() > SPARE_BYTES, "records get none of it"
    disk.capacity_bytes = None
    await brokers.until(brokers.is_whole)
    await brokers.until(lambda: disk.exists(SPARE_FILE))


@run_by(run_brokers, count=3)
async def test_clients_are_told_which_replica_cannot_lead(brokers: Brokers) -> None:
    await with_topics(brokers, t=(1, 2, 3))
    fill(brokers.machines[1])
    assert await brokers.produce(1, b"refused") == STORAGE_ERROR
    await brokers.until(lambda: brokers.machines[2].leads())
    answer = await brokers.ask(2, MetadataRequest(None))
    (partition,) = answer.topics[0].partitions
    assert (partition.leader_id, partition.offline_replicas) == (2, (1,))
    assert {broker.node_id for broker in answer.brokers} == {1, 2, 3}


@pytest.mark.parametrize("seed", range(4))
def test_what_is_acknowledged_outlives_disks_that_fill_one_after_the_other(seed: int) -> None:
    async def story(brokers: Brokers) -> None:
        await with_topics(brokers, t=(1, 2, 3))
        acknowledged: list[bytes] = [b"first"]
        for turn in range(6):
            full = brokers.machines[1 + turn % 3]
            fill(full)
            for number in range(8):
                value = b"%d-%d" % (turn, number)
                error = -1
                while error:
                    leader = brokers.controller.partition().leader
                    error = await brokers.produce(leader, value, timeout_ms=2_000) if leader != NO_LEADER else -1
                    await brokers.pass_time(0.05)
                    assert error in (0, -1, STORAGE_ERROR, NOT_LEADER)
                acknowledged.append(value)
            full.disks[0].heal()
            await brokers.until(brokers.is_whole, "the disk has room")
        values = [value for value in brokers.leader().values() if value in acknowledged]
        assert sorted(dict.fromkeys(values)) == sorted(acknowledged)

    run_brokers(story, count=3, seed=seed)
