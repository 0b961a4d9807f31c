"""`make machines-soak`: restarts each of three machines under load twice, then checks every guarantee. It also checks
that every replica was in sync whenever no machine was away.

    python -m tests.machines.soak [--minutes 60] [--apart] [--kafka] [--patient] [--rate 120] [--seed N] [--folder DIR]

The load: idempotent producers, a group of two readers and a transactional copier. One restart of each machine is kill
-9, the other SIGTERM, in an order from the seed. `--apart`: each machine has a controller and a broker in two
processes. `--kafka`: the nodes of the third machine are Apache Kafka's (a Java, and its jars in MOLDAU_KAFKA_LIBS).
`--patient`: longer limits for sessions and followers, for a busy machine.

Prints a line for each restart and each minute, and the verdict; history and logs stay in the folder. Exit code 1 if a
guarantee was broken. For root, on Linux.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable

from moldau.errors import KafkaError
from moldau.testing import history
from tests.chaos.campaign import judged, parse_options, tell
from tests.chaos.clients import Clients
from tests.chaos.namespaces import enter_own
from tests.chaos.nodes import NODE_IDS
from tests.machines.documented import INTERNAL, DocumentedNodes

OF_KAFKA = NODE_IDS[-1]
SETTLED_S = 30.0
"""The time of load before the first check: the internal topics exist."""
AWAY_S = 10.0
"""The time of a machine between its end and its start."""
LOOK_S = 10.0
"""The time between two checks of a cluster that should be whole."""
AGAIN_S = 2.0
"""The pause before a second look at an out-of-sync replica: brokers learn of each other one by one."""
SAY_S = 60.0
PATIENT = {
    "initial.broker.registration.timeout.ms": "600000",
    "broker.session.timeout.ms": "60000",
    "replica.lag.time.max.ms": "120000",
}
"""Among dozens of processes on the same cores a JVM may pause for longer than a session."""


def main() -> int:
    enter_own("tests.machines.soak")
    parser = argparse.ArgumentParser(prog="python -m tests.machines.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--apart", action="store_true", help="controllers, from brokers")
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka on one machine of three")
    parser.add_argument("--patient", action="store_true", help="longer sessions")
    options = parse_options(parser, rate=120)
    of_kafka, settings = {OF_KAFKA} if options.kafka else set(), PATIENT if options.patient else {}
    nodes = DocumentedNodes(options.folder, of_kafka, are_apart=options.apart, settings=settings)
    soak = Soak(nodes, options.minutes * 60, random.Random(options.seed))
    return tell(judged(options.folder, nodes, options.rate, random.Random(options.seed), soak.run))


class Soak:
    """`run` runs while the clients run."""

    def __init__(self, nodes: DocumentedNodes, duration_s: float, choices: random.Random) -> None:
        self._nodes = nodes
        self._duration_s = duration_s
        ends: list[tuple[str, Callable[[int], None]]] = [("kill -9", nodes.kill), ("SIGTERM", nodes.stop)]
        self._restarts = [(text, end, machine) for text, end in ends for machine in NODE_IDS]
        choices.shuffle(self._restarts)
        self._begin_s = self._said_s = 0.0
        self._looks = 0
        self._problems: list[str] = []

    def run(self, recorder: history.Recorder, clients: Clients) -> list[str]:
        time.sleep(SETTLED_S)
        self._nodes.wait_whole()
        self._begin_s = self._said_s = time.monotonic()
        pause_s = self._duration_s / (len(self._restarts) + 1)
        try:
            for number, (text, end, machine) in enumerate(self._restarts, 1):
                self._watch(clients, self._begin_s + number * pause_s)
                recorder.fault(f"{text} of machine {machine}")
                end(machine)
                time.sleep(AWAY_S)
                self._nodes.start(machine)
                started_s = time.monotonic()
                self._nodes.wait_whole()
                self._say(f"{text} of machine {machine}: whole {time.monotonic() - started_s:.1f} s after its start")
            self._watch(clients, self._begin_s + self._duration_s)
            self._check_internal_topics()
        except (AssertionError, KafkaError) as error:
            self._problems.append(str(error))
        self._say(f"{self._looks} looks at a whole cluster, {clients.acknowledged:,} records acknowledged")
        return self._problems

    def _watch(self, clients: Clients, end_s: float) -> None:
        """Checks until then that every replica is in sync."""
        while time.monotonic() < end_s:
            self._look()
            if ended := self._nodes.ended():
                raise AssertionError(f"nodes {ended} ended by themselves")
            clients.check()
            if time.monotonic() - self._said_s > SAY_S:
                self._said_s = time.monotonic()
                load = os.getloadavg()[0]
                self._say(f"{clients.acknowledged:,} acknowledged, {len(clients.problems)} problems, load {load:.0f}")
            time.sleep(max(0.0, min(LOOK_S, end_s - time.monotonic())))

    def _look(self) -> None:
        """Ignores an election of controllers, and a broker that answers late."""
        self._looks += 1
        try:
            if self._nodes.out_of_sync():
                time.sleep(AGAIN_S)
                for lack in self._nodes.out_of_sync():
                    self._say(f"NOT IN SYNC: {lack}")
                    self._problems.append(f"while no machine was away: {lack}")
        except KafkaError as error:
            self._say(f"no answer: {error}")

    def _check_internal_topics(self) -> None:
        topics = self._nodes.topics()
        for name in INTERNAL:
            factors = {len(row.replicas) for row in topics[name].partitions}
            in_sync = {len(row.isr) for row in topics[name].partitions}
            assert factors == in_sync == {3}, f"{name}: {factors} replicas, {in_sync} in sync"
            self._say(f"{name}: {len(topics[name].partitions)} partitions with 3 replicas in sync")

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._begin_s:6.0f} s: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
