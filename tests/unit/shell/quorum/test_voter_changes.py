"""Voters join and leave while the quorum runs, by requests of operators or of the nodes themselves (KIP-853, 1186)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.controller.requests import QuorumDescription
from moldau.shell.quorum.snapshot_files import found_snapshots
from moldau.simulation.host_network import HostNetwork
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.network import SimulatedNetwork
from moldau.simulation.ports import SimulatedClock
from moldau.simulation.trace import Trace
from moldau.types import Uuid
from moldau.wire.protocol.messages.raft_records import Endpoint, KRaftVersionFeature, VotersRecordVoter
from moldau.wire.protocol.messages.raft_voters import (
    AddRaftVoterRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)
from tests.support.quorum_of_three import LISTENER, QuorumNode, quota, quotas_of
from tests.support.stories import run_by
from tests.support.virtual_time import until

PORT = 9093
FIRST = VotersRecordVoter(1, Uuid(bytes(15) + b"\1"), (Endpoint(LISTENER, "node-1", PORT),), KRaftVersionFeature(0, 1))
DUPLICATE_VOTER, VOTER_NOT_FOUND, REQUEST_TIMED_OUT, INVALID_REQUEST = 126, 127, 7, 42
INCONSISTENT_CLUSTER_ID = 104


class GrowingQuorum:
    """Node 1 is the first voter; others may join it."""

    def __init__(self, clock: SimulatedClock, network: SimulatedNetwork) -> None:
        self._clock, self._network = clock, network
        self.nodes: dict[int, QuorumNode] = {}

    async def start(self, node_id: int, disk_seed: int = 0, *, joins: bool = False) -> QuorumNode:
        settings = {"node.id": str(node_id), "listeners": f"PLAINTEXT://:9092,{LISTENER}://node-{node_id}:{PORT}"}
        settings["controller.quorum.bootstrap.servers"] = f"node-1:{PORT},node-3:{PORT}"
        settings["controller.quorum.auto.join.enable"] = str(joins).lower()
        settings["metadata.log.max.record.bytes.between.snapshots"] = "500"
        node = self.nodes[node_id] = QuorumNode(
            node_id,
            self._clock,
            HostNetwork(self._network, f"node-{node_id}"),
            parse_broker_settings(settings),
            (FIRST,) if node_id == 1 else (),
            disk_seed,
        )
        await node.listen(f"node-{node_id}", PORT)
        node.start(None)
        await node.starting
        return node

    def describe(self) -> QuorumDescription:
        return next(node for node in self.nodes.values() if node.role.is_leader).role.describe()

    def voter_ids(self) -> list[int]:
        return sorted(voter.replica_id for voter in self.describe().voters)

    async def until(self, condition: Callable[[], bool]) -> None:
        await until(lambda: any(node.role.is_leader for node in self.nodes.values()) and condition())

    async def ask(self, request: AddRaftVoterRequest | RemoveRaftVoterRequest) -> tuple[int, str | None]:
        """Error and message of the leader's response."""
        leader = next(node for node in self.nodes.values() if node.role.is_leader)
        answer = await leader.role.submit(request)
        assert hasattr(answer, "error_code")
        return answer.error_code, answer.error_message


def tell(story: Callable[[GrowingQuorum], Awaitable[None]]) -> None:
    """Runs `story` in virtual time; node 1 leads when it begins."""
    loop = VirtualLoop()

    async def run() -> None:
        network = SimulatedNetwork(loop, 1, Trace(loop.time))
        quorum = GrowingQuorum(SimulatedClock(loop), network)
        await quorum.start(1)
        await story(quorum)
        assert [node.broken for node in quorum.nodes.values()] == [[]] * len(quorum.nodes)

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()


def directory_of(quorum: GrowingQuorum, node_id: int) -> Uuid:
    return quorum.nodes[node_id].role.identity.directory_id


def add(quorum: GrowingQuorum, node_id: int, host: str | None = None, name: str = LISTENER) -> AddRaftVoterRequest:
    point = Endpoint(name, host or f"node-{node_id}", PORT)
    return AddRaftVoterRequest(None, 2_000, node_id, directory_of(quorum, node_id), (point,))


@run_by(tell)
async def test_an_observer_that_may_join_becomes_a_voter_by_itself_and_can_lead_then(quorum: GrowingQuorum) -> None:
    await quorum.start(2, joins=True)
    await quorum.start(3, joins=True)
    await quorum.until(lambda: quorum.voter_ids() == [1, 2, 3])
    first = quorum.nodes.pop(1)
    first.die()
    await quorum.until(lambda: quorum.describe().leader_id != 1)
    leader = next(node for node in quorum.nodes.values() if node.role.is_leader)
    await leader.role.submit(quota("ada", 1.0))
    assert quotas_of(leader.role) == {"ada": 1.0}


@run_by(tell)
async def test_a_node_that_lost_its_disk_takes_its_own_place_again(quorum: GrowingQuorum) -> None:
    await quorum.start(2, joins=True)
    await quorum.start(3, joins=True)
    await quorum.until(lambda: quorum.voter_ids() == [1, 2, 3])
    lost = directory_of(quorum, 3)
    quorum.nodes[3].die()
    await quorum.start(3, disk_seed=1, joins=True)
    assert directory_of(quorum, 3) != lost
    await quorum.until(lambda: {voter.directory_id for voter in quorum.describe().voters} >= {directory_of(quorum, 3)})
    assert quorum.voter_ids() == [1, 2, 3]
    assert lost not in {voter.directory_id for voter in quorum.describe().voters}


@run_by(tell)
async def test_an_observer_stays_one_until_an_operator_adds_it(quorum: GrowingQuorum) -> None:
    await quorum.start(2)
    await asyncio.sleep(10)
    assert quorum.voter_ids() == [1]
    assert [each.replica_id for each in quorum.describe().observers] == [2]
    assert await quorum.ask(add(quorum, 2)) == (0, None)
    assert quorum.voter_ids() == [1, 2]
    assert await quorum.ask(RemoveRaftVoterRequest(None, 1, directory_of(quorum, 1))) == (0, None)
    await quorum.until(lambda: quorum.describe().leader_id == 2)
    assert quorum.voter_ids() == [2]


@run_by(tell)
async def test_the_leader_learns_of_a_committed_voter_change_without_later_records(quorum: GrowingQuorum) -> None:
    await quorum.start(2)
    await asyncio.sleep(2)
    assert await quorum.ask(add(quorum, 2)) == (0, None)
    leader = quorum.nodes[1].role
    assert leader.high_watermark == leader.log.log_end_offset


@run_by(tell)
async def test_a_start_that_hears_of_less_than_its_snapshot_has_waits_for_more(quorum: GrowingQuorum) -> None:
    node = await quorum.start(2)
    for number in range(20):
        assert await quorum.nodes[1].role.submit(quota("ada", float(number)))
    await asyncio.sleep(1)
    assert any(snapshot.end_offset for snapshot in found_snapshots(node.disk))
    quorum.nodes[1].die()
    node.die()
    await node.listen("node-2", PORT)
    node.start(None)
    await asyncio.sleep(1)
    node.role.committed(1)  # by a leader that has only just begun, and does not know better yet
    assert node.role.high_watermark == 0


@run_by(tell)
async def test_a_change_that_cannot_be_is_refused_in_kafkas_words(quorum: GrowingQuorum) -> None:
    await quorum.start(2)
    await asyncio.sleep(2)
    code, message = await quorum.ask(add(quorum, 2, host="nowhere"))
    assert (code, str(message).endswith("is not ready to receive requests")) == (REQUEST_TIMED_OUT, True)
    code, message = await quorum.ask(add(quorum, 2, name="OTHER"))
    assert code == INVALID_REQUEST
    assert "didn't include the endpoint" in str(message)
    code, message = await quorum.ask(RemoveRaftVoterRequest("another", 2, directory_of(quorum, 2)))
    assert code == INCONSISTENT_CLUSTER_ID
    assert str(message).startswith('The given id "another" doesn\'t match the cluster id "')
    assert (await quorum.ask(add(quorum, 1)))[0] == DUPLICATE_VOTER
    code, message = await quorum.ask(RemoveRaftVoterRequest(None, 2, directory_of(quorum, 2)))
    assert code == VOTER_NOT_FOUND
    assert str(message).startswith("Cannot remove voter ReplicaKey(id=2, directoryId=")
    assert quorum.voter_ids() == [1]


@run_by(tell)
async def test_a_leader_that_moved_has_its_own_address_changed_and_is_found_there(quorum: GrowingQuorum) -> None:
    await quorum.start(2, joins=True)
    await quorum.until(lambda: quorum.voter_ids() == [1, 2])
    leader = quorum.nodes[1].role
    epoch = leader.describe().leader_epoch
    here = Endpoint(LISTENER, "node-1", PORT)
    moved = UpdateRaftVoterRequest(
        None, epoch, 1, directory_of(quorum, 1), (here, Endpoint("NEW", "node-1", 9_095)), KRaftVersionFeature(0, 1)
    )
    answer = await leader.change_voters(moved, LISTENER)
    assert answer.error_code == 0
    await quorum.until(lambda: len(quorum.nodes[2].role.describe().listeners[1]) == 2)
    assert quorum.describe().leader_epoch == epoch
    assert quorum.nodes[1].role.is_leader
    await quorum.start(3, joins=True)
    await quorum.until(lambda: quorum.voter_ids() == [1, 2, 3])


@run_by(tell)
async def test_a_voter_that_moved_says_where_it_is(quorum: GrowingQuorum) -> None:
    await quorum.start(2)
    await asyncio.sleep(2)
    elsewhere = AddRaftVoterRequest(
        None, 2_000, 2, directory_of(quorum, 2), (Endpoint(LISTENER, "node-2", PORT), Endpoint("OLD", "a", 1))
    )
    assert await quorum.ask(elsewhere) == (0, None)
    await quorum.until(lambda: len(quorum.describe().listeners[2]) == 1)
    moved = UpdateRaftVoterRequest(None, 99, 2, directory_of(quorum, 2), elsewhere.listeners, KRaftVersionFeature(0, 1))
    refused = await quorum.nodes[1].role.change_voters(moved, LISTENER)
    assert refused.error_code == 75  # of an epoch without a leader
