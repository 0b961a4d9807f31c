"""Changes of voters: an operator adds, removes and updates voters, and replaces disks by empty ones.

A majority of the voters always keeps its disks, because a quorum cannot survive a greater loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from moldau.core.raft.messages import AddVoter, RemoveVoter, Standing, UpdateVoter, VoterChange
from moldau.core.raft.voters import ReplicaKey, VoterSet
from moldau.simulation.loop import SimulatedProcess
from moldau.simulation.raft.machine import QuorumMachine
from moldau.simulation.raft.story import Story
from moldau.wire.protocol.messages.raft_records import Endpoint, VotersRecordVoter

MEAN_CHANGE_MS = 600
REQUEST_TIMEOUT_S = 2.0
MIN_VOTERS = 2


class Membership:
    """`machines`: those of the first voters, and additional ones."""

    def __init__(self, story: Story, machines: Sequence[QuorumMachine]) -> None:
        self._story = story
        self._machines = machines
        self._process = SimulatedProcess("operator")
        self._random = story.random_of("operator")
        self._asked: VoterSet | None = None
        """The voter set that results from the requested change."""
        self._is_ended = False
        self.accepted = 0

    def begin(self) -> None:
        if self._story.kraft_version:
            self._plan()

    def end(self) -> None:
        self._is_ended = True

    def _plan(self) -> None:
        delay_ms = 1 + int(self._random.expovariate(1 / MEAN_CHANGE_MS))
        self._story.after(delay_ms, self._change, self._process)

    def replace_disk(self, random: Random) -> None:
        """A machine loses its disk, and restarts with an empty one and another directory id, so it is not the same
        voter."""
        machine = random.choice(self._machines)
        if self._story.kraft_version and self._is_allowed(machine.key):
            machine.replace_disk()

    def _is_allowed(self, lost: ReplicaKey | None, asked: VoterSet | None = None) -> bool:
        """Whether each voter set that may be in force has a majority with intact disks."""
        kept = [machine.key for machine in self._machines if machine.key != lost]
        sets = [*self._story.ledger.voter_sets_ahead(self._story.first_voters)]
        sets += [each for each in (asked, self._asked) if each is not None]
        return all(sum(key in kept for key in voters.keys) >= voters.majority for voters in sets)

    def _change(self) -> None:
        if self._is_ended:
            return
        leader = next((each for each in self._machines if each.node and each.node.quorum.is_leader), None)
        change = None if leader is None or leader.node is None else self._drawn(leader.node.quorum.log.voters.latest)
        if leader is None or change is None:
            self._plan()
            return
        request, self._asked = change
        self._story.trace.tell(f"operator: {_told(request)}")
        call = self._story.calls.call
        call(self._process, "operator", leader.host, request, self._take, REQUEST_TIMEOUT_S)

    def _drawn(self, voters: VoterSet) -> tuple[VoterChange, VoterSet] | None:
        machine = self._random.choice(self._machines)
        voter = VotersRecordVoter(machine.key.node_id, machine.key.directory_id)
        kind = self._random.choice(("add", "add", "remove", "update"))
        if kind == "add" and not voters.has_node(machine.key.node_id):
            return self._if_allowed(AddVoter(voter), voters.with_voter(voter))
        if kind == "remove" and len(voters.voters) > MIN_VOTERS:
            key = self._random.choice(voters.keys)
            return self._if_allowed(RemoveVoter(key), voters.without(key))
        if kind == "update" and machine.key in voters.keys:
            endpoints = (Endpoint("CONTROLLER", machine.host, self._random.randrange(1, 3)),)
            voter = VotersRecordVoter(machine.key.node_id, machine.key.directory_id, endpoints)
            return UpdateVoter(voter), voters
        return None

    def _if_allowed(self, request: VoterChange, asked: VoterSet) -> tuple[VoterChange, VoterSet] | None:
        return (request, asked) if self._is_allowed(None, asked) else None

    def _take(self, answer: object | None) -> None:
        """Without a response the change may still take effect, so the requested set counts until the next request."""
        if isinstance(answer, Standing):
            self._asked = None
            self.accepted += not answer.error
            self._story.trace.tell(f"operator: {answer.error or 'done'}")
        self._plan()


def _told(request: VoterChange) -> str:
    if isinstance(request, RemoveVoter):
        return f"remove node {request.voter.node_id}"
    return f"{'add' if isinstance(request, AddVoter) else 'update'} node {request.voter.voter_id}"
