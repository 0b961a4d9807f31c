"""`make machines-cuts`: how long producers stop while the network of three machines is cut in eight ways. It also
checks that no record is lost, doubled or out of order.

    python -m tests.machines.cuts [--rounds 10] [--minutes M] [--kafka] [--rate 120] [--seed N] [--folder DIR]

Each round cuts one machine for eight seconds, heals the network and waits until every replica is in sync. Before each
round the leaders are spread evenly. In every other round the machine is that of the active controller. A round's figure
is the longest time without an acknowledgement of a partition to an idempotent producer (acks=all), if that time began
before the network was whole for two seconds. Meanwhile a group reads.

`--kafka`: three nodes of Apache Kafka on their own machines, with the same files, are cut at the same time: other work
on this host is the same for both (needs a Java, and its jars in MOLDAU_KAFKA_LIBS). Prints a table in Markdown and the
verdict; exit code 1 if a guarantee was broken. For root, on Linux.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from moldau.testing import history
from tests.chaos.campaign import judged, parse_options
from tests.chaos.clients import READ, Clients
from tests.chaos.namespaces import CLIENTS, Namespaces, enter_own
from tests.chaos.nodes import NODE_IDS, STOP_S
from tests.chaos.proxies import Pair
from tests.machines.documented import BROKER_PORT, CONTROLLER_PORT, PATIENCE_S, DocumentedNodes
from tests.machines.stops import Round, stops
from tests.support.talking_process import line_of

CUT_S = 8.0
SETTLED_S = 2.0
"""The time of writing before a cut, and after it before the end of the round."""
NOTICED = {
    "replica.lag.time.max.ms": "4000",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
}
"""A cut lasts longer than a session and than a replica may lag. Few partitions, because of the many rounds."""
END_S = 1_800
"""For readers and copier to reach the end, and for the check."""
READY, RESULT = "ready", "{"
"""The first words of a system's lines: before each round, and in its last line."""
SYSTEMS = {"moldau": "Moldau", "kafka": "Apache Kafka"}


def both_ways(pairs: list[Pair]) -> list[Pair]:
    return pairs + [(other, one) for one, other in pairs]


def to_others(machine: int) -> list[Pair]:
    return [(machine, other) for other in NODE_IDS if other != machine]


def from_others(machine: int) -> list[Pair]:
    return [(other, machine) for other in NODE_IDS if other != machine]


def to_clients(*machines: int) -> list[Pair]:
    return [(machine, CLIENTS) for machine in machines]


Cut = Callable[[Namespaces, int], None]
CUTS: dict[str, Cut] = {
    "one way: nothing reaches the leader": lambda links, leader: links.cut(from_others(leader)),
    "one way: nothing leaves the leader": lambda links, leader: links.cut(to_others(leader)),
    "leader from controllers": lambda links, leader: links.cut_port(both_ways(to_others(leader)), CONTROLLER_PORT),
    "leader from followers": lambda links, leader: links.cut_port(both_ways(to_others(leader)), BROKER_PORT),
    "leader from both": lambda links, leader: links.cut(both_ways(to_others(leader))),
    "link down": lambda links, leader: links.pull_cable(leader),
    "split, clients with the two": lambda links, alone: links.cut(both_ways(to_others(alone) + to_clients(alone))),
    "split, clients with the one": lambda links, alone: links.cut(
        both_ways(to_others(alone) + to_clients(*(other for other in NODE_IDS if other != alone)))
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.machines.cuts", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="of each kind of cut")
    parser.add_argument("--minutes", type=float, default=math.inf, help="no round begins later")
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka too")
    parser.add_argument("--of", choices=SYSTEMS, help=argparse.SUPPRESS)
    if "--of" in sys.argv:
        enter_own("tests.machines.cuts")
    options = parse_options(parser, rate=120)
    if options.of is not None:
        return be_cut(options.of, options.folder, options.rounds, options.rate, options.seed)
    running = {
        system: start(system, options.folder, options.rounds, options.rate, options.seed)
        for system in (SYSTEMS if options.kafka else ("moldau",))
    }
    return side_by_side(running, options.rounds, options.minutes * 60)


# -- one system, in its own process: it reads a line before each round, and writes one after it


def be_cut(system: str, folder: Path, rounds: int, rate: int, seed: int) -> int:
    nodes = DocumentedNodes(folder, set(NODE_IDS) if system == "kafka" else set(), settings=NOTICED)
    cut: list[Round] = []
    acknowledged = 0

    def act(recorder: history.Recorder, clients: Clients) -> list[str]:
        nonlocal acknowledged
        for number in range(rounds):
            for kind in CUTS:
                print(READY, flush=True)
                if not sys.stdin.readline():
                    return []
                try:
                    cut.append(one_round(nodes, recorder, kind, number))
                except AssertionError as error:
                    return [f"{kind}: {error}"]
                if ended := nodes.ended():
                    return [f"{kind}: nodes {ended} ended by themselves"]
                clients.check()
                acknowledged = clients.acknowledged
        return []

    problems = judged(folder, nodes, rate, random.Random(seed), act, copies=False)
    took_s: dict[str, list[float]] = {}
    for each, stop_s in zip(cut, stops(history.HistoryFile(folder / "history.jsonl"), cut, READ), strict=True):
        took_s.setdefault(each.kind, []).append(stop_s)
    print(json.dumps({"stops": took_s, "problems": problems, "acknowledged": acknowledged}), flush=True)
    return 0


def one_round(nodes: DocumentedNodes, recorder: history.Recorder, kind: str, number: int) -> Round:
    """Raises AssertionError if the cluster does not become whole."""
    nodes.wait_whole()
    nodes.elect_preferred()
    nodes.wait_whole()
    time.sleep(SETTLED_S)
    active = nodes.active_controller()
    others = [machine for machine in NODE_IDS if machine != active]
    machine = active if active and number % 2 == 0 else others[number // 2 % len(others)]
    begin_ms = now_ms()
    recorder.fault(f"{kind}: machine {machine}, the active controller is on {active}")
    CUTS[kind](nodes.links, machine)
    time.sleep(CUT_S)
    nodes.links.heal()
    nodes.links.put_cable_back(machine)
    time.sleep(SETTLED_S)
    end_ms = now_ms()
    nodes.wait_whole()
    return Round(kind, begin_ms, end_ms)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


# -- all systems, each round at the same time


def side_by_side(running: Mapping[str, subprocess.Popen[str]], rounds: int, seconds: float) -> int:
    end_s = time.monotonic() + seconds
    said: dict[str, str] = {}
    try:
        for kind in [*CUTS] * rounds:
            said = {system: wait_for(process, (READY, RESULT), PATIENCE_S * 2) for system, process in running.items()}
            if time.monotonic() > end_s or not all(line.startswith(READY) for line in said.values()):
                break
            print(f"{time.strftime('%X')} {kind}, load {os.getloadavg()[0]:.0f}", flush=True)
            for process in running.values():
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
        for process in running.values():
            assert process.stdin is not None
            process.stdin.close()
        told = {}
        for system, process in running.items():
            line = said.get(system, "")
            told[system] = json.loads(line if line.startswith(RESULT) else wait_for(process, (RESULT,), END_S) or "{}")
    finally:
        for process in running.values():
            process.kill()
            process.wait(STOP_S)
    print("\n".join(table(told)))
    return 1 if any(each.get("problems", True) for each in told.values()) else 0


def start(system: str, folder: Path, rounds: int, rate: int, seed: int) -> subprocess.Popen[str]:
    words = {"--of": system, "--rounds": rounds, "--rate": rate, "--seed": seed, "--folder": folder / system}
    command = [sys.executable, "-m", "tests.machines.cuts", *(str(word) for pair in words.items() for word in pair)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_for(process: subprocess.Popen[str], begin: tuple[str, ...], seconds: float) -> str:
    """The next line with one of these beginnings; prints the others. Empty if the process ends."""
    while line := line_of(process.stdout, seconds):
        if line.startswith(begin):
            return line
        print(line, end="", flush=True)
    return ""


def table(told: Mapping[str, Mapping[str, Any]]) -> list[str]:
    names = [SYSTEMS[system] for system in told]
    lines = ["| cut | rounds | " + " | ".join(f"{name}: median | longest" for name in names) + " |"]
    lines.append("|---|---|" + "---|---|" * len(names))
    for kind in CUTS:
        figures = [each.get("stops", {}).get(kind, []) for each in told.values()]
        if all(figures):
            cells = [cell for each in figures for cell in (f"{statistics.median(each):.1f} s", f"{max(each):.1f} s")]
            lines.append(f"| {kind} | {min(map(len, figures))} | " + " | ".join(cells) + " |")
    for name, each in zip(names, told.values(), strict=True):
        wrong = "; ".join(each.get("problems", ["it ended"])) or "nothing lost, doubled or out of order"
        lines.append(f"{name}: {each.get('acknowledged', 0):,} records acknowledged, {wrong}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
