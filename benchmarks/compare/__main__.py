"""Runs the comparison and writes its figures; `benchmarks.compare.table` makes the tables of them.

    python -m benchmarks.compare [--rounds 3] [--records 100000] [--minutes 18] [--only WORD] [--output FILE]

All servers run at the same time and are warmed up. Each round measures each row once, in alternating order. A figure is
the median of the rounds. A slow row stops after some seconds: its rate counts the records that it has finished. If the
minutes do not suffice, later rounds are left out, and the result says so.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import random
import signal
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.compare import packages, servers, work
from benchmarks.compare.systems import SYSTEMS, System
from benchmarks.compare.work import Figures, Job
from benchmarks.output import in_turn, say, short
from benchmarks.peers import CACHE, KAFKA_VERSION, Peer, PeerError, fetch_kafka

RESULT = Path(__file__).parent.parent / "results" / "compare.json"
SIZES = (100, 1024)
REPLAY_S = 10
"""How long a second reader waits: a queue has nothing for it."""
LIBRARIES = ("confluent-kafka", "kafka-python", "pika", "rstream", "redis", "nats-py")


@dataclass(frozen=True)
class Amounts:
    """How much a round does."""

    records: int = 100_000
    seconds: float = 3.0
    """The longest write or read."""
    window: int = 1000
    """Unacknowledged records of a writer, and of a reader."""
    alone_seconds: float = 1.0
    """For writes that wait for each acknowledgement."""
    latency_rate: int = 500
    latency_records: int = 1000
    kills: int = 2

    @classmethod
    def of(cls, records: int) -> Amounts:
        """Shorter latencies and fewer kills too, if there are few records."""
        whole = cls()
        if records >= whole.records:
            return replace(whole, records=records)
        return replace(whole, records=records, latency_records=max(50, min(1000, records // 10)), kills=1)


class Comparison:
    """The running servers, and the figures of each row and round."""

    def __init__(self, systems: tuple[System, ...], amounts: Amounts, folder: Path) -> None:
        self.systems = systems
        self.amounts = amounts
        self.folder = folder
        self.peers: dict[str, Peer] = {}
        self.missing: dict[str, str] = {}
        self.rounds: dict[str, list[Figures]] = defaultdict(list)
        self.kills: dict[str, list[Figures]] = defaultdict(list)
        self.at_rest: dict[str, Figures] = {}
        self._names = 0

    def start(self, make: dict[str, Any], reasons: dict[str, str]) -> None:
        """Starts one server of each kind. A row whose server is missing is named with the reason."""
        for server in dict.fromkeys(system.server for system in self.systems if system.server):
            try:
                if server not in make:
                    raise PeerError(reasons.get(server, "not available"))
                peer = self.peers[server] = servers.started(make[server], self.folder / server)
                say(f"{peer.name} is up after {peer.start_seconds:.2f} s")
            except PeerError as error:
                self._miss(server, str(error))
        time.sleep(2)  # what a server does after its port is open is not rest
        for server, peer in self.peers.items():
            self.at_rest[server] = {"pss_mib": servers.pss_mib(peer), "start_s": peer.start_seconds}

    def _miss(self, server: str, reason: str) -> None:
        say(f"  {server} is not measured: {reason}")
        for system in self.systems:
            if system.server == server:
                self.missing[system.label] = reason

    def stop(self) -> None:
        for peer in self.peers.values():
            peer.stop()

    def available(self) -> list[System]:
        return [system for system in self.systems if not system.server or system.server in self.peers]

    def job(self, system: System, value_bytes: int) -> Job:
        """A job with a new name; its topic, queue or stream exists."""
        self._names += 1
        peer = self.peers.get(system.server)
        amounts = self.amounts
        job = Job(
            system=system,
            address=system.address_of(peer, self.folder),
            name=f"compare{self._names}",
            value_bytes=value_bytes,
            records=amounts.records,
            seconds=amounts.seconds,
            window=amounts.window,
            pids=tuple(process.pid for process in servers.tree_of(peer)) if peer else (),
        )
        work.create(job)
        return job

    def warm_up(self) -> None:
        """A write and a read of each server and durability, not counted: a JVM is slow at first."""
        for system in self.available():
            if system.is_killed:
                try:
                    job = self.job(system, SIZES[0])
                    work.write(job)
                    work.read(job)
                    work.delete(job)
                except PeerError as error:
                    say(f"  warm-up of {system.label} failed: {error}")

    def round(self, number: int) -> None:
        for system in in_turn(self.available(), number):
            try:
                figures = self._row(system)
            except PeerError as error:
                self.missing[system.label] = str(error)
                say(f"  round {number + 1} {system.label} failed: {error}")
            else:
                self.rounds[system.label].append(figures)
                say(f"  round {number + 1} {system.label}: {short(figures)}")

    def _row(self, system: System) -> Figures:
        figures: Figures = {}
        for value_bytes in SIZES:
            job = self.job(system, value_bytes)
            written = work.write(job)
            job = replace(job, records=int(written["records"]))
            parts = {"write": written, "read": work.read(job)}
            if value_bytes == SIZES[0]:
                parts["replay"] = work.read(replace(job, reader="second", patience_s=REPLAY_S))
            work.delete(job)
            for part, found in parts.items():
                figures |= {f"{part}_{value_bytes}_{name}": value for name, value in found.items()}
        alone = replace(self.job(system, SIZES[0]), window=1, seconds=self.amounts.alone_seconds)
        figures["alone_rate"] = work.write(alone)["rate"]
        amounts = self.amounts
        paced = replace(self.job(system, SIZES[0]), rate=amounts.latency_rate, records=amounts.latency_records)
        figures |= {f"latency_{name}": value for name, value in work.latency(paced).items()}
        for job in (alone, paced):
            work.delete(job)
        return figures

    def kill_each(self, chance: random.Random, ends_at: float) -> None:
        for attempt in range(self.amounts.kills):
            for system in self.available():
                if not system.is_killed or time.perf_counter() > ends_at:
                    continue
                peer = self.peers.get(system.server)
                try:
                    if peer is not None and peer.process is None:
                        peer.start()  # it did not come back after the kill of another row
                    job = replace(self.job(system, SIZES[0]), records=20 * self.amounts.records, seconds=10)
                    found = work.after_kill(job, peer, self.folder, chance)
                except PeerError as error:
                    say(f"  kill {attempt + 1} of {system.label} says nothing: {error}")
                else:
                    self.kills[system.label].append(found)
                    say(f"  kill {attempt + 1} of {system.label}: {short(found)}")

    def result(self) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = []
        for system in self.systems:
            rounds, kills = self.rounds[system.label], self.kills[system.label]
            names = sorted(set.intersection(*map(set, rounds))) if rounds else []
            figures = {name: statistics.median(each[name] for each in rounds) for name in names}
            figures |= self.at_rest.get(system.server, {})
            if kills:
                sums = {name: sum(each[name] for each in kills) for name in kills[0]}
                figures |= {"kills": len(kills), "kills_acknowledged": sums["acknowledged"], "kills_lost": sums["lost"]}
            row: dict[str, object] = {"name": system.name, "library": system.library, "server": system.server}
            row |= {
                "durability": system.durability,
                "missing": "" if rounds else self.missing.get(system.label, "not measured"),
            }
            rows.append({**row, "figures": figures, "rounds": rounds})
        return rows


def available_servers(wanted: set[str]) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    """How to make each server, why one is missing, and the versions."""
    reasons: dict[str, str] = {}
    tree = kafka = None
    versions = {"SQLite": sqlite3.sqlite_version}
    if wanted - {"moldau", "kafka"}:
        try:
            tree = packages.fetch(CACHE)
            versions |= {name: packages.version_of(tree, name) for name in packages.SERVERS}
        except PeerError as error:
            reasons |= dict.fromkeys(wanted - {"moldau", "kafka"}, str(error))
    if "kafka" in wanted:
        try:
            kafka, versions["Apache Kafka"] = fetch_kafka(CACHE), KAFKA_VERSION
        except PeerError as error:
            reasons["kafka"] = str(error)
    return servers.makers(tree, kafka), reasons, versions


def write_result(path: Path, comparison: Comparison, versions: dict[str, str], rounds: int) -> None:
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
    result = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine,
        "versions": versions,
        "amounts": asdict(comparison.amounts),
        "rounds": rounds,
        "rows": comparison.result(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=Amounts.records)
    parser.add_argument("--minutes", type=float, default=18, help="later rounds and kills are left out after so long")
    parser.add_argument("--only", action="append", default=[], help="only rows whose name holds this word")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the kills")
    parser.add_argument("--output", type=Path, default=RESULT)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers end with this process
    begin = time.perf_counter()
    ends_at = begin + 60 * arguments.minutes
    words = [word.lower() for word in arguments.only]
    systems = tuple(one for one in SYSTEMS if not words or any(word in one.label.lower() for word in words))
    make, reasons, versions = available_servers({system.server for system in systems if system.server})
    versions |= {name: version(name) for name in LIBRARIES}
    with tempfile.TemporaryDirectory(prefix="moldau-compare-") as folder:
        comparison = Comparison(systems, Amounts.of(arguments.records), Path(folder))
        try:
            comparison.start(make, reasons)
            comparison.warm_up()
            done, longest_s = 0, 0.0
            # The kills need about as long as a round.
            while done < arguments.rounds and (not done or time.perf_counter() + 2 * longest_s < ends_at):
                round_begin = time.perf_counter()
                comparison.round(done)
                done, longest_s = done + 1, max(longest_s, time.perf_counter() - round_begin)
            comparison.kill_each(random.Random(arguments.seed), ends_at)
        finally:
            comparison.stop()
        write_result(arguments.output, comparison, versions, done)
    minutes = (time.perf_counter() - begin) / 60
    say(f"{done} of {arguments.rounds} rounds, {minutes:.1f} minutes; all figures: {arguments.output}")
    for label, reason in comparison.missing.items():
        say(f"missing: {label}: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
