"""What is done to the cluster: one trouble after the other, drawn from the seed, and a whole cluster in between."""

from __future__ import annotations

import itertools
import random
import signal
import time
from collections import Counter
from collections.abc import Callable

from moldau.errors import KafkaError
from moldau.testing.history import Recorder
from tests.chaos.clients import TOPICS
from tests.chaos.nodes import NODE_IDS, Nodes

BEYOND_SESSION_S = 12.0
"""Longer than `broker.session.timeout.ms`: who is silent so long is fenced."""


class Operator:
    """`faults`: how often each trouble was there."""

    def __init__(self, nodes: Nodes, recorder: Recorder, choices: random.Random) -> None:
        self.faults: Counter[str] = Counter()
        self._nodes = nodes
        self._recorder = recorder
        self._choices = choices
        self._troubles: tuple[Callable[[], None], ...] = (
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
        )

    def act(self) -> None:
        """One trouble, and what ends it; returns when the cluster is whole again. Raises AssertionError."""
        self._choices.choice(self._troubles)()
        ended = self._nodes.ended()
        assert not ended, f"nodes {ended} ended by themselves"
        self._nodes.wait_whole()
        time.sleep(self._choices.uniform(0, 2))

    def _note(self, kind: str, text: str) -> None:
        self.faults[kind] += 1
        self._recorder.fault(text)

    def _pick(self) -> int:
        return self._choices.choice(NODE_IDS)

    def _rest(self, most_s: float) -> None:
        time.sleep(self._choices.uniform(0, most_s))

    # -- kill -9

    def kill_one(self) -> None:
        self._kill("kill -9", self._pick())

    def kill_controller(self) -> None:
        self._kill("kill -9 of the controller", self._nodes.controller() or self._pick())

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
        duration_s = self._choices.choice((self._choices.uniform(0.5, 4), BEYOND_SESSION_S))
        self._note(kind, f"{text} for {duration_s:.1f} s")
        self._nodes.proxies.cut(pairs)
        time.sleep(duration_s)
        self._nodes.proxies.heal()

    # -- what operators do

    def restart_in_turn(self) -> None:
        for node_id in self._choices.sample(NODE_IDS, len(NODE_IDS)):
            self._note("SIGTERM in a rolling restart", f"SIGTERM of node {node_id}")
            code = self._nodes.stop(node_id)
            assert code == 0, f"SIGTERM of node {node_id} ended it with {signal.strsignal(-code) if code < 0 else code}"
            self._nodes.start(node_id)
            self._nodes.wait_whole()

    def reassign(self) -> None:
        """To two replicas, and back to three in another order."""
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
