"""Faults of the cluster: one after the other, drawn from the seed, and a whole cluster in between."""

from __future__ import annotations

import errno
import itertools
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping

from moldau.errors import KafkaError
from moldau.testing.history import Recorder
from moldau.types import Uuid
from tests.chaos.clients import TOPICS
from tests.chaos.namespaces import Namespaces, SmallDisk
from tests.chaos.nodes import NODE_IDS, Nodes

BEYOND_SESSION_S = 12.0
"""Longer than `broker.session.timeout.ms`: a broker that is silent for so long is fenced."""


class Operator:
    """`faults`: the count of each fault. `small_disks`: of nodes that have one; they may be filled."""

    def __init__(
        self, nodes: Nodes, recorder: Recorder, choices: random.Random, small_disks: Mapping[int, SmallDisk]
    ) -> None:
        self.faults: Counter[str] = Counter()
        self._nodes = nodes
        self._recorder = recorder
        self._choices = choices
        self._small_disks = small_disks
        self._troubles: list[Callable[[], None]] = [
            self.kill_one,
            self.kill_one,
            self.kill_controller,
            self.kill_two,
            self.kill_all,
            self.freeze_shortly,
            self.freeze_beyond_session,
            self.cut_one_off,
            self.cut_one_way,
            self.cut_one_link,
            self.restart_in_turn,
            self.reassign,
            self.kill_while_another_is_frozen,
            self.change_voters,
            self.remove_controller,
            self.kill_between_voter_changes,
            self.let_disk_fail,
        ]
        if small_disks:
            self._troubles += [self.fill_disk, self.kill_on_full_disk]
        if isinstance(nodes.links, Namespaces):
            self._troubles.append(self.pull_cable)
        self._left: list[Callable[[], None]] = []

    def act(self) -> None:
        """One fault and its end; returns when the cluster is whole again. Raises AssertionError.

        Each comes once, in a random order, before any repeats. Draws never depend on the cluster: a seed gives one
        sequence."""
        if not self._left:
            self._left = self._choices.sample(self._troubles, len(self._troubles))
        self._left.pop()()
        ended = self._nodes.ended()
        assert not ended, f"nodes {ended} ended by themselves"
        self._nodes.wait_whole()
        self._rest(2)

    def _note(self, kind: str, text: str) -> None:
        self.faults[kind] += 1
        self._recorder.fault(text)

    def _pick(self) -> int:
        return self._choices.choice(NODE_IDS)

    def _pick_controller(self) -> int:
        """A random one if no node names it."""
        other = self._pick()
        return self._nodes.controller() or other

    def _rest(self, most_s: float) -> None:
        time.sleep(self._choices.uniform(0, most_s))

    # -- kill -9

    def kill_one(self) -> None:
        self._kill("kill -9", self._pick())

    def kill_controller(self) -> None:
        self._kill("kill -9 of the controller", self._pick_controller())

    def kill_two(self) -> None:
        self._kill("kill -9 of two", *self._choices.sample(NODE_IDS, 2))

    def kill_all(self) -> None:
        self._kill("kill -9 of all", *NODE_IDS)

    def _kill(self, kind: str, *node_ids: int) -> None:
        for number, node_id in enumerate(node_ids):
            self._note(kind, f"kill -9 of node {node_id}")
            self._nodes.kill(node_id)
            if number + 1 < len(node_ids):
                self._rest(0.5)
        self._rest(4)
        self._nodes.start(*self._choices.sample(node_ids, len(node_ids)))

    # -- SIGSTOP

    def freeze_shortly(self) -> None:
        self._freeze("SIGSTOP, shortly", self._choices.uniform(0.1, 3))

    def freeze_beyond_session(self) -> None:
        self._freeze("SIGSTOP beyond the session", BEYOND_SESSION_S)

    def _freeze(self, kind: str, duration_s: float) -> None:
        node_id = self._pick()
        self._note(kind, f"SIGSTOP of node {node_id} for {duration_s:.1f} s")
        self._nodes.freeze(node_id)
        time.sleep(duration_s)
        self._nodes.thaw(node_id)

    def kill_while_another_is_frozen(self) -> None:
        frozen, killed = self._choices.sample(NODE_IDS, 2)
        self._note("SIGSTOP, shortly", f"SIGSTOP of node {frozen}")
        self._nodes.freeze(frozen)
        self._kill("kill -9", killed)
        self._rest(2)
        self._nodes.thaw(frozen)

    # -- links

    def cut_one_off(self) -> None:
        node_id = self._pick()
        others = [other for other in NODE_IDS if other != node_id]
        pairs = [(node_id, other) for other in others] + [(other, node_id) for other in others]
        self._cut("a node cut off", f"node {node_id} is cut off from the others", pairs)

    def cut_one_way(self) -> None:
        node_id = self._pick()
        pairs = [(other, node_id) for other in NODE_IDS if other != node_id]
        self._cut("a node hears nobody", f"nothing reaches node {node_id} from the others", pairs)

    def cut_one_link(self) -> None:
        one, other = self._choices.sample(NODE_IDS, 2)
        self._cut("one link cut", f"nodes {one} and {other} do not reach each other", [(one, other), (other, one)])

    def _cut(self, kind: str, text: str, pairs: list[tuple[int, int]]) -> None:
        duration_s = self._cut_s()
        self._note(kind, f"{text} for {duration_s:.1f} s")
        self._nodes.links.cut(pairs)
        time.sleep(duration_s)
        self._nodes.links.heal()

    def pull_cable(self) -> None:
        links, node_id, duration_s = self._nodes.links, self._pick(), self._cut_s()
        assert isinstance(links, Namespaces)
        self._note("a cable pulled", f"nobody reaches node {node_id}, clients neither, for {duration_s:.1f} s")
        links.pull_cable(node_id)
        time.sleep(duration_s)
        links.put_cable_back(node_id)

    def _cut_s(self) -> float:
        return self._choices.choice((self._choices.uniform(0.5, 4), BEYOND_SESSION_S))

    # -- disks

    def let_disk_fail(self) -> None:
        """The node halts, as Apache Kafka does when its only log directory fails, and is started again."""
        node_id = self._pick()
        self._note("a failed disk", f"the disk of node {node_id} fails")
        since = self._nodes.said(node_id)
        self._nodes.let_disk_fail(node_id)
        code = self._nodes.wait_ended(node_id)
        assert code == 1, f"node {node_id} ended with {code} where its disk failed"
        self._nodes.wait_said(node_id, os.strerror(errno.EFBIG), since)
        self._rest(4)
        self._nodes.start(node_id)

    def fill_disk(self) -> None:
        """The node continues, and accepts records again when it has room."""
        node_id = self._fill(self._choices.choice((self._choices.uniform(0.5, 4), BEYOND_SESSION_S)))
        self._free(node_id)

    def kill_on_full_disk(self) -> None:
        """It is started without room, and may therefore end by itself."""
        node_id = self._fill(self._choices.uniform(0, 2))
        self._kill("kill -9 on a full disk", node_id)
        self._rest(4)
        self._free(node_id)

    def _fill(self, duration_s: float) -> int:
        """Gives the node whose disk is full, for at least so long."""
        node_id = self._choices.choice(list(self._small_disks))
        self._note("a full disk", f"the disk of node {node_id} is full")
        since, end_s = self._nodes.said(node_id), time.monotonic() + duration_s
        # again and again: when a node drops an incomplete file, it leaves room
        self._nodes.wait_said(node_id, "no space", since, self._small_disks[node_id].fill)
        time.sleep(max(0.0, end_s - time.monotonic()))
        return node_id

    def _free(self, node_id: int) -> None:
        """Starts a node again that halted for lack of room, as a supervisor would."""
        self._small_disks[node_id].free()
        self._recorder.fault(f"the disk of node {node_id} has room again")

        def start_again() -> None:
            if node_id in self._nodes.ended():
                self._note("a halt on a full disk", f"node {node_id} ended by itself, and is started again")
                self._nodes.start(node_id)

        self._nodes.wait_whole(start_again)

    # -- what operators do

    def change_voters(self) -> None:
        node_id = self._pick()
        directory_id = self._remove_voter(node_id)
        self._rest(4)
        self._add_voter(node_id, directory_id)

    def remove_controller(self) -> None:
        """Removes the active controller from the quorum; the others elect another."""
        node_id = self._pick_controller()
        directory_id = self._remove_voter(node_id)
        self._rest(2)
        self._add_voter(node_id, directory_id)

    def kill_between_voter_changes(self) -> None:
        """Two voters are left, and both are needed for a majority; or the removed third node is killed, which does not
        count."""
        node_id, killed = self._pick(), self._pick()
        directory_id = self._remove_voter(node_id)
        self._kill("kill -9 between voter changes", killed)
        self._add_voter(node_id, directory_id)

    def _remove_voter(self, node_id: int) -> Uuid:
        self._note("a voter removed", f"node {node_id} is removed from the voters")
        return self._nodes.remove_voter(node_id)

    def _add_voter(self, node_id: int, directory_id: Uuid) -> None:
        self._note("a voter added", f"node {node_id} is added to the voters")
        self._nodes.add_voter(node_id, directory_id)

    def restart_in_turn(self) -> None:
        for node_id in self._choices.sample(NODE_IDS, len(NODE_IDS)):
            self._note("SIGTERM in a rolling restart", f"SIGTERM of node {node_id}")
            code = self._nodes.stop(node_id)
            assert code == 0, f"SIGTERM of node {node_id} ended it with {signal.strsignal(-code) if code < 0 else code}"
            self._nodes.start(node_id)
            self._nodes.wait_whole()

    def reassign(self) -> None:
        """Moves partitions to two replicas, and back to three in another order."""
        topic, partition = self._choices.choice(TOPICS), self._choices.randrange(3)
        for replicas in (
            self._choices.choice(list(itertools.permutations(NODE_IDS, 2))),
            self._choices.choice(list(itertools.permutations(NODE_IDS))),
        ):
            self._note("reassignment", f"{topic}-{partition} is moved to {', '.join(map(str, replicas))}")
            try:
                self._nodes.reassign(topic, partition, replicas)
            except KafkaError as error:
                raise AssertionError(f"a reassignment was refused: {error}") from error
            self._nodes.wait_whole()
