"""A machine on which nodes of a quorum run, one process after the other."""

from __future__ import annotations

from random import Random

from moldau.core.metadata.snapshot import METADATA_DIRECTORY
from moldau.core.raft.voters import ReplicaKey, VoterSet
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.simulation.loop import ProcessKilledError
from moldau.simulation.machine import Machine
from moldau.simulation.ports import CrashPlan
from moldau.simulation.raft.node import QuorumNode
from moldau.simulation.raft.story import Story
from moldau.types import BrokerId


class QuorumMachine(Machine):
    """`node` is None while no process runs."""

    def __init__(self, story: Story, node_id: int) -> None:
        super().__init__(story, f"node-{node_id}", [_formatted()], ended=self._check_survivors)
        self.story = story
        own = [key for key in story.first_voters.keys if key.node_id == node_id]
        self.key = own[0] if own else ReplicaKey(BrokerId(node_id), story.new_directory_id(node_id))
        self._first_voters = story.first_voters if own else VoterSet(())
        """The voters from the formatting of the directory: a node that joins later knows none."""
        self.node: QuorumNode | None = None

    def start_if_down(self) -> None:
        """Does nothing if a process runs. If the process dies by its own crash plan during the start, the next call
        starts it again."""
        if self.is_alive:
            return
        process, story = self.begin_process(), self.story
        story.trace.tell(f"{self.host} starts ({self.boots})")
        self.node = node = QuorumNode(story, self.key, self._first_voters, process, self.process_disks[0])
        story.calls.serve(self.host, process, node.receive)
        try:
            node.start()
        except ProcessKilledError:
            return

    def stop(self) -> None:
        """A clean stop."""
        if self.node is not None:
            self.story.trace.tell(f"{self.host} stops")
            self.node.stop()
            self.kill("process", is_told=False)

    def replace_disk(self) -> None:
        """The node dies and loses its disk. The next one starts with an empty disk and another directory id."""
        self.story.trace.tell(f"{self.host} gets an empty disk")
        self.kill("process", is_told=False)
        self.story.ledger.lost(self.host)
        self.disks[0] = _formatted()
        self.key = ReplicaKey(self.key.node_id, self.story.new_directory_id(self.key.node_id))
        self._first_voters = VoterSet(())

    def plan_death(self, changes: int, random: Random) -> None:
        """The process dies inside its `changes`-th change of the disk from now, perhaps with a loss of power."""
        if self.node is not None:
            self.node.disk.plan = CrashPlan(changes, random.choice(("machine", "process")), random, self.kill)

    def _dropped(self) -> None:
        self.node = None

    def _check_survivors(self, is_power_lost: bool) -> None:
        self.story.ledger.survived(self.host, self.disks[0], METADATA_DIRECTORY, is_power_lost=is_power_lost)


def _formatted() -> MemoryDisk:
    """A disk with a durable, empty directory for the metadata log."""
    disk = MemoryDisk()
    disk.make_directory(METADATA_DIRECTORY)
    disk.flush_directory("")
    return disk
