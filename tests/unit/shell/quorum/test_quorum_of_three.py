"""Three nodes elect a leader, agree on its decisions and lose none: on the simulator's network and time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Literal

import pytest

from moldau.core.controller.quorum_description import NOT_LEADER_OR_FOLLOWER, quorum_response
from moldau.core.metadata.snapshot import METADATA_DIRECTORY, Snapshot, decode_snapshot, encode_snapshot
from moldau.errors import KafkaError, StorageFailedError
from moldau.shell.io.simulated.memory_disk import Fault
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.quorum.snapshot_files import found_snapshots, is_damaged, path_of
from moldau.simulation.host_network import HostNetwork
from moldau.simulation.links import NetworkWeather
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.network import SimulatedNetwork
from moldau.simulation.ports import SimulatedClock
from moldau.simulation.trace import Trace
from moldau.wire.protocol.messages.metadata_records import FenceBrokerRecord
from moldau.wire.records.batch import HEADER_SIZE, iterate_batches
from tests.support.quorum import METADATA_LOG
from tests.support.quorum_of_three import NODE_IDS, QuorumNode, QuorumOfThree, quota, quotas_of
from tests.support.stories import run_by
from tests.support.virtual_time import PATIENCE_S, until

NOT_CONTROLLER = 41

OFTEN_A_SNAPSHOT = {
    "metadata_log_max_record_bytes_between_snapshots": "100",
    "metadata_log_segment_ms": "10000",
    "metadata_max_retention_ms": "20000",
}
SELDOM_A_SNAPSHOT = OFTEN_A_SNAPSHOT | {"metadata_log_max_record_bytes_between_snapshots": "2000"}


class SimulatedQuorum(QuorumOfThree):
    """Three nodes that have not begun, on a simulated network."""

    def __init__(self, loop: VirtualLoop, seed: int, **settings: str) -> None:
        self.network = SimulatedNetwork(loop, seed, Trace(loop.time))
        super().__init__(
            SimulatedClock(loop),
            lambda node_id: HostNetwork(self.network, f"node-{node_id}"),
            lambda node_id: (f"node-{node_id}", 9093),
            **settings,
        )


def tell(story: Callable[[SimulatedQuorum], Awaitable[None]], seed: int = 1, **settings: str) -> None:
    """Runs `story` in virtual time."""
    loop = VirtualLoop()

    async def run() -> None:
        quorum = SimulatedQuorum(loop, seed, **settings)
        await story(quorum)
        assert [node.broken for node in quorum.nodes.values()] == [[], [], []]

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()


async def the_leader(quorum: QuorumOfThree, *but: QuorumNode) -> QuorumNode:
    await until(lambda: any(node not in but for node in quorum.leaders()))
    return next(node for node in quorum.leaders() if node not in but)


async def begun(quorum: QuorumOfThree) -> tuple[QuorumNode, QuorumNode]:
    """Starts all three; gives the leader and another one."""
    await quorum.start()
    leader = await the_leader(quorum)
    return leader, next(node for node in quorum.nodes.values() if node is not leader)


async def grow_old(leader: QuorumNode) -> None:
    """Makes so many decisions for so long that segments of the leader's log are deleted: a snapshot has their
    records."""
    for number in range(40):
        await decide(leader, f"user-{number % 4}", float(number))
        await asyncio.sleep(5)


async def decide(leader: QuorumNode, user: str, value: float = 1.0) -> None:
    await leader.role.submit(quota(user, value))


async def all_know(quorum: QuorumOfThree, *users: str) -> None:
    await until(lambda: all(sorted(quotas_of(node.role)) == sorted(users) for node in quorum.nodes.values()))


@pytest.mark.parametrize("seed", range(5))
def test_one_node_leads_and_what_it_decides_is_in_the_image_of_all(seed: int) -> None:
    async def story(quorum: SimulatedQuorum) -> None:
        await quorum.start()
        leader = await the_leader(quorum)
        await asyncio.gather(*(node.starting for node in quorum.nodes.values()))
        assert quorum.leaders() == [leader]
        await decide(leader, "ada")
        await all_know(quorum, "ada")
        for node in quorum.nodes.values():
            if node is not leader:
                with pytest.raises(KafkaError) as caught:
                    await node.role.submit(quota("bob", 1.0))
                assert caught.value.code == NOT_CONTROLLER

    tell(story, seed)


@pytest.mark.parametrize("seed", range(5))
def test_when_the_leader_dies_another_one_leads_and_what_was_committed_stays(seed: int) -> None:
    async def story(quorum: SimulatedQuorum) -> None:
        await quorum.start()
        first = await the_leader(quorum)
        for user in "abc":
            await decide(first, user)
        first.die()
        second = await the_leader(quorum, first)
        assert second.role.leader_epoch > 1
        await decide(second, "d")
        await quorum.start(first.node_id)
        await first.starting
        await all_know(quorum, *"abcd")

    tell(story, seed)


@run_by(tell)
async def test_a_leader_that_stops_cleanly_says_so_and_its_successor_need_not_wait(quorum: SimulatedQuorum) -> None:
    await quorum.start()
    first = await the_leader(quorum)
    await asyncio.gather(*(node.starting for node in quorum.nodes.values()))
    began_s = asyncio.get_running_loop().time()
    await first.stop()
    await the_leader(quorum, first)
    assert asyncio.get_running_loop().time() - began_s < 1.9  # before a fetch would time out


@pytest.mark.parametrize("seed", range(5))
def test_a_dead_leader_has_a_successor_before_a_fetch_would_time_out(seed: int) -> None:
    async def story(quorum: SimulatedQuorum) -> None:
        quorum.network.weather = NetworkWeather(spike_share=0.0)
        await quorum.start()
        first = await the_leader(quorum)
        await asyncio.gather(*(node.starting for node in quorum.nodes.values()))
        began_s = asyncio.get_running_loop().time()
        first.die()
        await until(lambda: any(node.role.leader_epoch > 1 for node in quorum.nodes.values() if node is not first))
        assert asyncio.get_running_loop().time() - began_s < 0.7

    tell(story, seed)


@pytest.mark.parametrize("error", ["io", "full"])
@run_by(tell)
async def test_a_voter_whose_disk_loses_its_vote_abstains_until_its_restart(
    quorum: SimulatedQuorum, *, error: Literal["io", "full"]
) -> None:
    await quorum.start()
    first = await the_leader(quorum)
    await asyncio.gather(*(node.starting for node in quorum.nodes.values()))
    voter, other = (node for node in quorum.nodes.values() if node is not first)
    voter.disk.fail(Fault("write", error, "quorum-state"))
    first.die()
    await until(lambda: voter.role.is_offline)
    await asyncio.sleep(10)
    assert not other.role.is_leader  # no voter has said that it votes for it
    voter.die()
    voter.disk.heal()
    await quorum.start(voter.node_id)
    await the_leader(quorum, first)


@run_by(tell)
async def test_a_start_fails_where_the_disk_does_before_a_cluster_is_known(quorum: SimulatedQuorum) -> None:
    leader, away = await begun(quorum)
    await away.starting
    away.die()
    await decide(leader, "ada")
    away.disk.fail(Fault("append", "io"))
    await quorum.start(away.node_id)
    with pytest.raises(StorageFailedError):
        async with asyncio.timeout(PATIENCE_S):
            await away.starting


@run_by(tell)
async def test_a_node_that_was_away_catches_up(quorum: SimulatedQuorum) -> None:
    leader, away = await begun(quorum)
    await away.starting
    away.die()
    for user in "abcdef":
        await decide(leader, user)
    await quorum.start(away.node_id)
    await all_know(quorum, *"abcdef")


@run_by(tell)
async def test_all_start_again_with_what_was_committed(quorum: SimulatedQuorum) -> None:
    await quorum.start()
    for user in "abc":
        await decide(await the_leader(quorum), user)
    for node in quorum.nodes.values():
        node.die()
    await quorum.start()
    await asyncio.gather(*(node.starting for node in quorum.nodes.values()))
    await all_know(quorum, *"abc")
    await decide(await the_leader(quorum), "d")
    await all_know(quorum, *"abcd")


@pytest.mark.parametrize("seed", range(5))
def test_what_a_cut_off_leader_appended_alone_is_taken_back(seed: int) -> None:
    async def story(quorum: SimulatedQuorum) -> None:
        await quorum.start()
        first = await the_leader(quorum)
        await decide(first, "a")
        await all_know(quorum, "a")
        for node in quorum.nodes.values():
            if node is not first:
                for ends in (first.node_id, node.node_id), (node.node_id, first.node_id):
                    quorum.network.cut(f"node-{ends[0]}", f"node-{ends[1]}", 30)
        lost = asyncio.ensure_future(first.role.submit(quota("lost", 1.0)))
        second = await the_leader(quorum, first)
        await decide(second, "b")
        quorum.network.mend()
        await all_know(quorum, "a", "b")
        with pytest.raises(KafkaError) as caught:
            await lost
        assert caught.value.code == NOT_CONTROLLER
        assert not first.role.is_leader
        assert first.role.log.log_end_offset == second.role.log.log_end_offset

    tell(story, seed)


@run_by(tell, **OFTEN_A_SNAPSHOT)
async def test_a_node_that_was_away_for_long_catches_up_by_a_snapshot(quorum: SimulatedQuorum) -> None:
    leader, away = await begun(quorum)
    await away.starting
    await decide(leader, "early")
    await until(lambda: quotas_of(away.role) == {"early": 1.0})
    away.die()
    await grow_old(leader)
    assert leader.role.log.log_start_offset > 20
    await leader.role.submit(quota("early", 2.0))
    await quorum.start(away.node_id)
    await all_know(quorum, "early", *(f"user-{number}" for number in range(4)))
    assert away.role.log.log_start_offset > 20
    assert quotas_of(away.role) == quotas_of(leader.role)
    await decide(leader, "late")
    await until(lambda: "late" in quotas_of(away.role))
    away.die()
    await quorum.start(away.node_id)
    await away.starting
    assert quotas_of(away.role) == quotas_of(leader.role)


@pytest.mark.parametrize("is_cut", [False, True])
@run_by(tell, **OFTEN_A_SNAPSHOT)
async def test_a_damaged_snapshot_of_the_leader_replaces_no_log_and_is_written_anew(
    quorum: SimulatedQuorum, *, is_cut: bool, caplog: pytest.LogCaptureFixture
) -> None:
    leader, away = await begun(quorum)
    await away.starting
    await decide(leader, "early")
    await until(lambda: quotas_of(away.role) == {"early": 1.0})
    for other in NODE_IDS:
        quorum.network.cut(f"node-{away.node_id}", f"node-{other}", 400)
    await grow_old(leader)
    damaged = path_of(found_snapshots(leader.disk)[-1])
    newest = leader.disk.open(damaged, create=False)
    place = newest.size() // 2
    if is_cut:
        newest.truncate(place)
    else:
        newest.write_at(place, bytes((newest.read(place, 1)[0] ^ 1,)))
    quorum.network.mend()
    await until(lambda: quotas_of(away.role) == quotas_of(leader.role))
    assert "cannot be read, and is fetched again" in caplog.text
    assert f"{damaged} is damaged, other nodes fetch it: it is written anew" in caplog.text
    assert away.broken == leader.broken == []
    assert all(not is_damaged(leader.disk, each) for each in found_snapshots(leader.disk))
    leader.die()
    await quorum.start(leader.node_id)
    await leader.starting
    assert quotas_of(leader.role) == quotas_of(away.role)


@run_by(tell, **OFTEN_A_SNAPSHOT)
async def test_a_leader_whose_disk_does_not_give_its_snapshot_leads_no_more(quorum: SimulatedQuorum) -> None:
    leader, away = await begun(quorum)
    await away.starting
    away.die()
    await grow_old(leader)
    leader.disk.fail(Fault("read", path_contains=".checkpoint"))
    await quorum.start(away.node_id)
    await until(lambda: leader.role.is_offline)
    leader.die()
    second = await the_leader(quorum, leader)
    await until(lambda: quotas_of(away.role) == quotas_of(second.role) != {})


@run_by(tell, **OFTEN_A_SNAPSHOT)
async def test_a_snapshot_that_cannot_be_applied_stops_the_node_and_leaves_its_log(quorum: SimulatedQuorum) -> None:
    leader, away = await begun(quorum)
    await away.starting
    await decide(leader, "early")
    await until(lambda: quotas_of(away.role) == {"early": 1.0})
    away.die()
    await grow_old(leader)
    path = path_of(found_snapshots(leader.disk)[-1])
    right = leader.disk.read_file(path)
    of_a_stranger = Snapshot((FenceBrokerRecord(99, 1),), decode_snapshot(right).control, 0)
    leader.disk.replace_file(path, encode_snapshot(of_a_stranger, leader.role.image.features, now_ms=0))
    await quorum.start(away.node_id)
    await until(lambda: bool(away.broken))
    assert "broker 99 is not registered" in str(away.broken[0])
    away.die()
    away.broken.clear()
    leader.disk.replace_file(path, right)
    await quorum.start(away.node_id)
    await until(lambda: quotas_of(away.role) == quotas_of(leader.role))


@pytest.mark.parametrize("place", ["header", "control record"])
@run_by(tell)
async def test_what_arrives_damaged_is_fetched_again_and_the_batches_before_it_count(
    quorum: SimulatedQuorum, *, place: str
) -> None:
    leader, away = await begun(quorum)
    await asyncio.gather(*(node.starting for node in quorum.nodes.values()))
    away.die()
    await decide(leader, "early")
    await decide(leader, "late")
    log = leader.disk.open(METADATA_LOG, create=False)
    batches = list(iterate_batches(log.read(0, log.size())))
    position, header = batches[-1] if place == "header" else batches[0]
    assert header.is_control is (place == "control record")
    # the magic byte, or the length of the record
    damaged = position + (16 if place == "header" else HEADER_SIZE)
    byte = log.read(damaged, 1)[0]
    log.write_at(damaged, bytes((byte ^ 1,)))
    if place == "control record":
        away.disk.remove_tree(METADATA_DIRECTORY)
    await quorum.start(away.node_id)
    await asyncio.sleep(20)
    assert away.broken == []
    expected = 0 if place == "control record" else header.base_offset
    assert away.role.log.log_end_offset == expected
    log.write_at(damaged, bytes((byte,)))
    await until(lambda: away.starting.done() and "late" in quotas_of(away.role))


@run_by(tell, **SELDOM_A_SNAPSHOT)
async def test_a_node_with_a_fetched_snapshot_takes_its_own_after_equal_growth(quorum: SimulatedQuorum) -> None:
    leader, away = await begun(quorum)
    await away.starting
    for number in range(70):
        await decide(leader, "early", float(number))
    await until(lambda: away.role.log.size_bytes > 6_000)
    others = [f"node-{node_id}" for node_id in NODE_IDS if node_id != away.node_id]
    for other in others:
        quorum.network.cut(f"node-{away.node_id}", other, 300)
    for number in range(40):
        await decide(leader, "meanwhile", float(number))
        await asyncio.sleep(5)  # the segments of the leader's log grow old
    leader_start = leader.role.log.log_start_offset
    assert leader_start > away.role.log.log_end_offset
    quorum.network.mend()
    await until(lambda: away.role.log.log_start_offset >= leader_start)
    loaded = found_snapshots(away.disk)[-1].end_offset
    leader = await the_leader(quorum)
    for number in range(25):
        await decide(leader, "late", float(number))
    await until(lambda: quotas_of(away.role).get("late") == 24.0)
    await asyncio.sleep(1)
    assert 2_000 < away.role.log.size_bytes < 4_000
    assert found_snapshots(away.disk)[-1].end_offset > loaded


@run_by(tell)
async def test_each_node_describes_the_quorum_as_it_knows_it(quorum: SimulatedQuorum) -> None:
    await quorum.start()
    leader = await the_leader(quorum)
    await decide(leader, "ada")
    await all_know(quorum, "ada")
    await asyncio.sleep(1)
    answers = {
        node.node_id: quorum_response(node.role.describe()).topics[0].partitions[0] for node in quorum.nodes.values()
    }
    assert {(answer.leader_id, answer.leader_epoch) for answer in answers.values()} == {
        (leader.node_id, leader.role.leader_epoch)
    }
    end_offset = leader.role.log.log_end_offset
    assert {answer.high_watermark for answer in answers.values()} == {end_offset}
    for node_id, answer in answers.items():
        if node_id != leader.node_id:
            assert (answer.error_code, answer.current_voters) == (NOT_LEADER_OR_FOLLOWER, ())
    states = answers[leader.node_id].current_voters
    assert [(state.replica_id, state.log_end_offset) for state in states] == [
        (1, end_offset),
        (2, end_offset),
        (3, end_offset),
    ]
    now_ms = leader.clock.now_ms()
    assert all(now_ms - 1_000 < state.last_caught_up_timestamp <= now_ms for state in states)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_no_acknowledged_change_is_lost_while_nodes_die_and_links_are_cut(seed: int) -> None:
    """Sixty seconds of faults; a change without a response may have been made or not."""

    async def story(quorum: SimulatedQuorum) -> None:
        random = Random(seed)
        acknowledged: dict[str, float] = {}
        unknown: dict[str, list[float]] = {}

        async def write() -> None:
            for number in itertools.count():
                await asyncio.sleep(random.uniform(0, 0.2))
                leaders = quorum.leaders()
                user, value = f"user-{random.randrange(20)}", float(number + 1)
                unknown.setdefault(user, []).append(value)
                if leaders:
                    with suppress(KafkaError, TimeoutError):
                        async with asyncio.timeout(5):
                            await random.choice(leaders).role.submit(quota(user, value))
                            acknowledged[user] = value

        await quorum.start()
        writing = asyncio.ensure_future(write())
        for _ in range(15):
            await asyncio.sleep(random.uniform(1, 6))
            node = quorum.nodes[random.choice(NODE_IDS)]
            kind = random.choice(("death", "loss of power", "cut", "stop"))
            if kind == "cut":
                for other in NODE_IDS:
                    quorum.network.cut(f"node-{node.node_id}", f"node-{other}", random.uniform(0.1, 8))
                continue
            if kind == "stop":
                await node.stop()
            else:
                node.die(SeededRandom(random.getrandbits(32)) if kind == "loss of power" else None)
            await asyncio.sleep(random.uniform(0, 5))
            await quorum.start(node.node_id)
        writing.cancel()
        quorum.network.mend()
        await decide(await the_leader(quorum), "the end")
        await until(lambda: all("the end" in quotas_of(node.role) for node in quorum.nodes.values()))
        for node in quorum.nodes.values():
            known = quotas_of(node.role)
            for user, value in acknowledged.items():
                assert known[user] >= value, (user, value)
            assert all(value in unknown[user] for user, value in known.items() if user != "the end")
        assert len(acknowledged) > 10

    tell(story, seed, **SELDOM_A_SNAPSHOT)
