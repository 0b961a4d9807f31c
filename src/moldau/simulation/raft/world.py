"""A whole story: machines, network, writers, trouble, and the final checks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from moldau.simulation.loop import VirtualLoop, virtual_loop
from moldau.simulation.raft.clients import Writer
from moldau.simulation.raft.faults import Faults
from moldau.simulation.raft.machine import QuorumMachine
from moldau.simulation.raft.membership import Membership
from moldau.simulation.raft.node import QuorumNode
from moldau.simulation.raft.story import Story
from moldau.simulation.seeds import SeedOutcome, how_it_ended
from moldau.simulation.violation import ViolationError

DEFAULT_SECONDS = 20.0
PATIENCE_S = 20.0
"""The virtual time within which a healed quorum must have a leader, and each node all committed records."""
LOOK_EVERY_S = 0.01


class Outcome(SeedOutcome, frozen=True, kw_only=True):
    """The outcome of one seed."""

    events: int
    elections: int
    truncations: int
    snapshots: int
    loads: int
    """The number of snapshots that replaced a log."""
    voter_changes: int


class World:
    """See the module. All values are drawn from `seed`."""

    def __init__(
        self,
        seed: int,
        loop: VirtualLoop,
        write_line: Callable[[str], None] | None = None,
        voters: int | None = None,
    ) -> None:
        self.story = story = Story(seed, loop, write_line, voters)
        self.trace, self.ledger = story.trace, story.ledger
        self.machines = [QuorumMachine(story, node_id) for node_id in story.node_ids]
        self.writers = [Writer(story, f"writer-{index}") for index in range(2)]
        self.membership = Membership(story, self.machines)
        self.faults = Faults(story, self.machines, self.membership)

    async def run(self, seconds: float) -> None:
        """Runs the story. Raises ViolationError."""
        story = self.story
        for machine in self.machines:
            machine.start_if_down()
        self.faults.begin()
        await asyncio.sleep(seconds)
        self.trace.tell("the trouble ends")
        self.faults.end()
        story.network.mend()
        story.calls.loss_share = 0.0
        for writer in self.writers:
            writer.stop()
        for machine in self.machines:
            if machine.node is not None:
                machine.node.disk.plan = None
                story.loop.resume(machine.node.process)
            machine.start_if_down()
        last = Writer(story, "last-writer")
        await self._until("a writer succeeds again", lambda: last.acknowledged > 2)
        last.stop()
        writers = [*self.writers, last]
        await self._until(
            "every node has everything", lambda: all(each.is_idle for each in writers) and self._is_whole()
        )
        self.ledger.check_logs({node.name: node.files.log for node in self._nodes()})
        if len({node.quorum.log.voters.latest for node in self._nodes()}) > 1:
            raise ViolationError("every node knows the voters", self._standings())
        await self._cut_off_from_the_leader()
        await self._cut_off_the_leader()

    async def _cut_off_from_the_leader(self) -> None:
        """A single follower that does not reach the leader must not disturb the quorum, and must follow the leader
        again afterwards (KIP-996). Skips followers that the majority needs: with two voters, or with three of which one
        has lost its disk."""
        leader, *followers = self._leader_first()
        voters = leader.quorum.log.voters.latest
        is_one_too_many = sum(voters.key_of(node.node) is not None for node in self._nodes()) > voters.majority
        follower = next((node for node in followers if is_one_too_many or not node.quorum.is_voter), None)
        if follower is None:
            return
        epoch, settings = leader.quorum.leader_epoch, self.story.quorum_settings
        length_ms = 2 * (settings.fetch_timeout_ms + settings.election_timeout_ms)
        self.faults.cut_off(follower.name, [leader.name], length_ms)
        await asyncio.sleep(2 * length_ms / 1_000)
        for node in self._nodes():
            if (node.quorum.leader_epoch, node.quorum.leader_id) != (epoch, leader.node.node_id):
                raise ViolationError("who does not hear the leader disturbs nobody", self._standings())

    async def _cut_off_the_leader(self) -> None:
        leader = self._leader_first()[0]
        if leader.quorum.log.voters.latest.majority == 1:
            return  # it is its own majority
        length_ms = 2 * self.story.quorum_settings.fetch_timeout_ms
        self.faults.cut_off(leader.name, [node.name for node in self._nodes() if node is not leader], length_ms)
        await asyncio.sleep(length_ms / 1_000)
        if leader.quorum.is_leader:
            raise ViolationError("a leader whom no majority hears resigns", self._standings())

    def _leader_first(self) -> list[QuorumNode]:
        return sorted(self._nodes(), key=lambda node: not node.quorum.is_leader)

    def _standings(self) -> str:
        return "; ".join(
            f"{node.name}: epoch {node.quorum.leader_epoch}, leader {node.quorum.leader_id}, "
            f"{node.quorum.high_watermark} of {node.quorum.log.log_end_offset}"
            for node in self._nodes()
        )

    def _nodes(self) -> list[QuorumNode]:
        return [machine.node for machine in self.machines if machine.node is not None]

    def _is_whole(self) -> bool:
        logs = [node.quorum.log for node in self._nodes()]
        ends = {log.log_end_offset for log in logs} | {log.high_watermark for log in logs}
        return len(logs) == len(self.machines) and len(ends) == 1

    async def _until(self, rule: str, is_done: Callable[[], bool]) -> None:
        end_s = self.story.loop.time() + PATIENCE_S
        while not is_done():
            if self.story.loop.time() > end_s:
                raise ViolationError(rule, f"not within {PATIENCE_S} s: {self._standings()}")
            await asyncio.sleep(LOOK_EVERY_S)


def run_seed(
    seed: int,
    *,
    seconds: float = DEFAULT_SECONDS,
    write_line: Callable[[str], None] | None = None,
    voters: int | None = None,
) -> Outcome:
    """Runs the whole story of `seed`, with the given number of first voters or a drawn one. Deterministic: the same
    code and seed give the same digest."""
    began = time.perf_counter()
    with virtual_loop() as loop:
        world = World(seed, loop, write_line, voters)
        violation = loop.run_until_complete(world.story.first_violation(world.run(seconds)))
    return Outcome(
        seed=seed,
        **how_it_ended(world.trace, violation),
        events=world.trace.count,
        elections=len(world.ledger.leaders),
        truncations=world.ledger.truncations,
        snapshots=world.ledger.snapshots,
        loads=world.ledger.loads,
        voter_changes=world.membership.accepted,
        acknowledged=len(world.ledger.acknowledged),
        elapsed_s=time.perf_counter() - began,
    )
