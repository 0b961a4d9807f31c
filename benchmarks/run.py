"""`make bench`: runs every workload against Moldau and Apache Kafka; prints a table of ratios and writes JSON.

    python -m benchmarks.run [--only WORD] [--rounds 3] [--without-apache] [--warm-memory] [--output FILE]

Machines are noisy, so only the ratio to the peer's figure in the same run counts. Each round runs every peer once, in
alternating order, and the table shows medians of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import warm_memory
from benchmarks.loaders import (
    canned,
    columns,
    connectors,
    handshakes,
    idle_queries,
    large,
    latency,
    one_record,
    produce,
    python_start,
    spark,
    tasks,
    transactions,
)
from benchmarks.loaders import specs as specs
from benchmarks.micro import authorization, compaction, many_topics, producer_ids, recovery, strangers
from benchmarks.output import Figures, in_turn, number, say, short
from benchmarks.peers import CACHE, ApacheKafka, Moldau, Peer, PeerError, fetch_kafka
from benchmarks.spark_peer import spark_python
from benchmarks.workload import Workload, read_workload

# The order of the rows: warm-up effects come first, memory last.
ORDER = ["produce-100b", "produce-1k", "produce-plain-100b", "produce-lz4-1k"]
ORDER += ["transactions-100b", "transactions-1k", "transactions-one-record"]
ORDER += ["latency-100", "latency-1000", "latency-3000", "latency-10000"]
ORDER += ["one-record-1", "one-record-50", "one-record-500", "one-record-8-in-flight"]
ORDER += ["canned", "large-fetch-64k", "large-fetch-1m", "large-fetch-16-partitions"]
ORDER += ["large-produce-16k", "large-produce-900k", "memory", "start", "arrow-100b"]
ORDER += [f"spark-{name}" for name in ("100b", "1k", "aggregate", "copy", "copy-at-least-once")]
ORDER += ["spark-micro-batch", "spark-micro-batch-aggregate"]
ORDER += [f"task-{name}" for name in ("filter", "window", "join", "files", "avro")]
ORDER += ["idle-queries", "idle-queries-each-second", "idle-sql-queries"]
ORDER += ["connectors", "idle-tasks"]
ORDER += ["pages", "python-start", "recovery", "compaction", "many-topics", "producer-ids"]
ORDER += ["tls-100b", "tls-1k", "handshakes", "authorization", "strangers"]
WARM_UP_RECORDS = 1_500_000
GIB = 1 << 30


class Bench:
    """One run: the running peers, their folder, and the figures of each workload, peer and round."""

    def __init__(
        self,
        make: Mapping[str, Callable[..., Peer]],
        rounds: int,
        folder: Path,
        cache: Path,
        memory: warm_memory.WarmMemory | None = None,
    ) -> None:
        self.make = make
        self.rounds = rounds
        self.folder = folder
        self.cache = cache
        self.memory = memory
        self.peers: list[Peer] = []
        self.tls_peers: list[Peer] = []
        self.topics = 0
        self.shared: dict[str, str] = {}

    def peers_of(self, workload: Workload) -> list[Peer]:
        """The first row with TLS starts the peers of all rows with TLS; the first other row starts those of all
        others."""
        if workload.has_tls:
            self.tls_peers = self.tls_peers or self._started("-tls", has_tls=True)
            return self.tls_peers
        self.peers = self.peers or self._started("", has_tls=False)
        return self.peers

    def _started(self, suffix: str, *, has_tls: bool) -> list[Peer]:
        peers = [make(f"{name}{suffix}", has_tls=has_tls) for name, make in self.make.items()]
        try:
            for peer in peers:
                peer.start()
                topic = self.new_topic(peer)
                say(f"{peer.name} is up; warming it up")
                produce.produce(peer, topic, records=WARM_UP_RECORDS, value_bytes=100, settings={"acks": "all"})
        except BaseException:
            stop(peers)
            raise
        return peers

    def stop_peers(self) -> None:
        stop([*self.peers, *self.tls_peers])

    def new_topic(self, peer: Peer, partitions: int = 1) -> str:
        self.topics += 1
        topic = f"bench-{self.topics}"
        produce.create_topic(peer, topic, partitions)
        return topic

    def shared_topic(self, peer: Peer) -> str:
        """One topic of the peer for all rounds of the append-only workloads."""
        if peer.name not in self.shared:
            self.shared[peer.name] = self.new_topic(peer)
        return self.shared[peer.name]


def stop(peers: list[Peer]) -> None:
    for peer in peers:
        peer.stop()


def throughput(bench: Bench, workload: Workload, peer: Peer) -> Figures:
    records, value_bytes = workload.records, workload.value_bytes
    topic = bench.new_topic(peer)
    sent = produce.produce(peer, topic, records=records, value_bytes=value_bytes, settings=workload.settings)
    read = produce.consume(peer, topic, records=records, value_bytes=value_bytes)
    return {
        "produce_rate": sent["rate"],
        "cpu_per_gb_in": sent["cpu_per_gb"],
        "consume_rate": read["rate"],
        "cpu_per_gb_out": read["cpu_per_gb"],
        "reader_cores": read["reader_cores"],
    }


def run_latency(bench: Bench, workload: Workload, peer: Peer) -> Figures:
    return latency.measure(
        peer,
        bench.new_topic(peer),
        rate=workload.rate,
        records=workload.records,
        warm_up=workload.warm_up,
        value_bytes=workload.value_bytes,
    )


def run_one_record(bench: Bench, workload: Workload, peer: Peer) -> Figures:
    return one_record.measure(
        peer,
        bench.shared_topic(peer),
        connections=workload.connections,
        requests=workload.requests,
        value_bytes=workload.value_bytes,
        in_flight=workload.in_flight,
    )


def run_canned(bench: Bench, workload: Workload, peer: Peer) -> Figures:
    return canned.measure(peer, bench.shared_topic(peer), requests=workload.requests)


def run_large(bench: Bench, workload: Workload, peer: Peer) -> Figures:
    key = f"{peer.name} {workload.name}"
    if key not in bench.shared:
        topic = bench.shared[key] = bench.new_topic(peer, workload.partitions)
        if workload.request == "fetch":
            large.fill(peer, topic, workload.partitions, workload.request_bytes)
    return large.measure(
        peer,
        bench.shared[key],
        request=workload.request,
        request_bytes=workload.request_bytes,
        partitions=workload.partitions,
        connections=workload.each_of_connections,
        requests=workload.requests,
    )


def run_transactions(bench: Bench, workload: Workload, peer: Peer) -> Figures:
    topic = bench.new_topic(peer)
    figures = transactions.measure(
        peer,
        topic,
        transactions=workload.transactions,
        interval_ms=workload.interval_ms,
        value_bytes=workload.value_bytes,
        settings=workload.settings,
    )
    produce.delete_topic(peer, topic)
    return figures


def start(bench: Bench, workload: Workload, peer: Peer) -> Figures:
    """A second process of the same kind, from launch to the first acknowledged record."""
    name = f"start-{peer.name}-{bench.topics}"
    bench.topics += 1
    fresh = bench.make[peer.name](name)
    try:
        fresh.start()
        begin = time.perf_counter()
        produce.create_topic(fresh, "first")
        produce.Sender(fresh, "first", value_bytes=100, settings={"acks": "all", "linger.ms": 0})
        return {
            "first_record_s": fresh.start_seconds + time.perf_counter() - begin,
            "idle_pss_mib": fresh.pss_mib(),
        }
    finally:
        fresh.stop()


KINDS: dict[str, Callable[[Bench, Workload, Peer], Figures]] = {
    "throughput": throughput,
    "latency": run_latency,
    "one_record": run_one_record,
    "canned": run_canned,
    "large": run_large,
    "transactions": run_transactions,
    "memory": lambda bench, workload, peer: {"pss_mib": peer.pss_mib()},
    "start": start,
    "handshakes": lambda bench, workload, peer: handshakes.measure(peer, workload.handshakes),
}


def run_beside_peers(bench: Bench, workload: Workload) -> dict[str, list[Figures]]:
    peers = bench.peers_of(workload)
    seen: dict[str, list[Figures]] = {peer.name: [] for peer in peers}
    for round_number in range(bench.rounds):
        for peer in in_turn(peers, round_number):
            if bench.memory:
                bench.memory.take()
            seen[peer.name].append(KINDS[workload.kind](bench, workload, peer))
            say(f"  round {round_number + 1} {peer.name}: {short(seen[peer.name][-1])}")
    return seen


def run_readers(bench: Bench, workload: Workload) -> dict[str, list[Figures]]:
    """Compares clients, not brokers: each reads the same topic of one broker in turn."""
    peers = bench.peers_of(workload)
    peer = next((each for each in peers if each.name in workload.brokers), peers[-1])
    records, readers = workload.records, workload.readers
    topic = bench.new_topic(peer, workload.partitions)
    produce.produce(peer, topic, records=records, value_bytes=workload.value_bytes, settings={"acks": "all"})
    seen: dict[str, list[Figures]] = {reader: [] for reader in readers}
    for round_number in range(bench.rounds):
        for reader in in_turn(readers, round_number):
            if workload.kind == "readers":
                figures = columns.measure(peer, topic, reader=reader, records=records)
            else:
                target = bench.new_topic(peer, workload.partitions)
                figures = spark.measure(peer, topic, target, reader=reader, records=records, cache=bench.cache)
            seen[reader].append(figures)
            say(f"  round {round_number + 1} {reader}: {short(figures)}")
    return seen


def run_connectors(bench: Bench, workload: Workload) -> dict[str, list[Figures]]:
    """Compares workers of connectors over one broker."""
    bench.topics += 1
    peer = bench.make[workload.brokers[0]](f"connectors_{bench.topics}")
    peer.start()
    seen: dict[str, list[Figures]] = {runner: [] for runner in connectors.RUNNERS}
    try:
        for round_number in range(bench.rounds):
            for runner in in_turn(connectors.RUNNERS, round_number):
                bench.topics += 1
                folder = bench.folder / f"trial_{bench.topics}"
                records, line_bytes = workload.records, workload.value_bytes
                figures = connectors.measure(peer, folder, runner=runner, records=records, line_bytes=line_bytes)
                seen[runner].append(figures)
                shutil.rmtree(folder)
                say(f"  round {round_number + 1} {runner}: {short(figures)} (load {os.getloadavg()[0]:.1f})")
    finally:
        peer.stop()
    return seen


def run_idle_tasks(bench: Bench, workload: Workload) -> Figures:
    bench.topics += 1
    peer = bench.make["moldau"](f"idle_tasks_{bench.topics}")
    peer.start()
    try:
        return connectors.measure_idle(peer, bench.folder / "idle_tasks", workload.seconds)
    finally:
        peer.stop()


def run_task(bench: Bench, workload: Workload) -> dict[str, list[Figures]]:
    """Compares a pipeline file with plain PySpark, each with its own broker."""
    tasks.warm_up()
    forms = (tasks.PAGE, tasks.PLAIN)
    seen: dict[str, list[Figures]] = {form: [] for form in forms}
    for round_number in range(bench.rounds):
        for form in in_turn(forms, round_number):
            bench.topics += 1
            peer = bench.make[workload.brokers[0]](f"task_{bench.topics}")
            with tasks.new_trial(peer, workload.task, form) as trial:
                seen[form].append(tasks.measure(trial, workload.records))
            shutil.rmtree(peer.folder)
            say(f"  round {round_number + 1} {form}: {short(seen[form][-1])}")
    return seen


def run_specs(bench: Bench) -> dict[str, list[Figures]]:
    """In its own folder and with its own broker each time."""
    tasks.warm_up()
    seen: list[Figures] = []
    for _ in range(bench.rounds):
        bench.topics += 1
        peer = bench.make["moldau"](f"pages_{bench.topics}")
        peer.start()
        try:
            seen.append(specs.measure(peer, peer.folder / "pages", spark_python(CACHE)))
        finally:
            peer.stop()
        say(f"  {short(seen[-1])}")
    return {"moldau": seen}


def run_compaction(bench: Bench, workload: Workload) -> Figures:
    """The seconds of a round, and a canary's p99 meanwhile, next to big batches and next to a cold replay."""
    folder = bench.folder / "compaction"
    arguments = argparse.Namespace(records=workload.records, keys=workload.keys, replay_gib=5, seconds=20.0)
    found: dict[str, Any] = compaction.measure(arguments, folder)
    shutil.rmtree(folder)
    return {
        "clean_s": found["compaction"]["seconds"],
        "canary_alone_p99_ms": found["alone"]["p99_ms"],
        "canary_compaction_p99_ms": max(each["p99_ms"] for each in found["compaction"]["canary"]),
        "canary_big_batches_p99_ms": found["big batches"]["p99_ms"],
        "canary_replay_p99_ms": found["replay"]["p99_ms"],
    }


def run_many_topics(bench: Bench, workload: Workload) -> Figures:
    found = many_topics.measure(str(bench.folder / "many"), workload.topics, workload.partitions, idle_s=10)
    names = ("create_s", "start_after_kill_s", "idle_cpu_percent", "clean_stop_s", "start_after_clean_stop_s")
    return {name: float(found[name]) for name in names}


def run_idle_queries(bench: Bench, workload: Workload) -> Figures:
    bench.topics += 1
    peer = bench.make["moldau"](f"idle_{bench.topics}")
    peer.start()
    try:
        counts, is_sql = workload.each_of_queries, workload.is_sql
        return idle_queries.measure(peer, counts, workload.interval_ms, workload.seconds, is_sql=is_sql)
    finally:
        peer.stop()


def run_alone(bench: Bench, workload: Workload) -> dict[str, list[Figures]]:
    if workload.kind == "python_start":
        rounds = workload.rounds
        return {"moldau": [{**python_start.in_process(rounds), **python_start.help_text(rounds)}]}
    if workload.kind == "compaction":
        return {"moldau": [run_compaction(bench, workload)]}
    if workload.kind == "many_topics":
        return {"moldau": [run_many_topics(bench, workload)]}
    if workload.kind == "producer_ids":
        return {"moldau": [producer_ids.measure(str(bench.folder), workload.producers)]}
    if workload.kind == "authorization":
        return {"moldau": [authorization.measure(workload.acls)]}
    if workload.kind == "strangers":
        return {"moldau": [strangers.measure(bench.folder / "strangers", workload.seconds)]}
    if workload.kind == "idle_queries":
        return {"moldau": [run_idle_queries(bench, workload)]}
    if workload.kind == "idle_tasks":
        return {"moldau": [run_idle_tasks(bench, workload)]}
    rows = [recovery.measure(name, batch, GIB, str(bench.folder)) for name, batch in recovery.WORKLOADS.items()]
    kills = [float(str(row["open_after_kill_s"])) for row in rows]
    clean = max(float(str(row["open_after_clean_stop_s"])) for row in rows)
    return {"moldau": [{"batches_16k_s": kills[0], "one_record_s": kills[1], "clean_stop_s": clean}]}


def run(bench: Bench, workload: Workload) -> dict[str, list[Figures]]:
    """The figures of each round, by peer; the first is ours. Raises PeerError if a peer is not available."""
    if workload.kind == "task":
        return run_task(bench, workload)
    if workload.kind == "pages":
        return run_specs(bench)
    if workload.kind == "connectors":
        return run_connectors(bench, workload)
    if workload.kind in ("readers", "spark"):
        return run_readers(bench, workload)
    return run_beside_peers(bench, workload) if workload.needs_peers else run_alone(bench, workload)


def unmeasured(workload: Workload, error: PeerError) -> dict[str, object]:
    row: dict[str, object] = dict.fromkeys(("ours", "peer", "ratio", "met"))
    return {**row, "workload": workload.name, "figure": "-", "target": "", "note": f"not measured: {error}"}


def medians(figures: list[Figures]) -> Figures:
    return {name: statistics.median(each[name] for each in figures) for name in figures[0]} if figures else {}


def judge(workload: Workload, seen: dict[str, list[Figures]]) -> list[dict[str, object]]:
    """One row for each figure: ours, the peer's, their ratio, the target and whether we meet it."""
    names = list(seen)
    ours = medians(seen[names[0]])
    theirs = medians(seen[names[1]]) if len(names) > 1 else {}
    rows: list[dict[str, object]] = []
    for figure, value in ours.items():
        other = theirs.get(figure)
        ratio = value / other if other else None
        target, is_met = "", None
        for rule, limit in workload.targets.get(figure, {}).items():
            target = f"{'ratio ' if rule.startswith('ratio') else ''}{'>=' if rule.endswith('least') else '<='} {limit}"
            judged = ratio if rule.startswith("ratio") else value
            if judged is not None:
                is_met = judged >= limit if rule.endswith("least") else judged <= limit
        note = ""
        if figure == "rate" and "loader_ceiling" in ours and value > 0.9 * ours["loader_ceiling"]:
            note = "client-bound"
        if figure == "consume_rate" and min(each["reader_cores"] for each in (ours, theirs) if each) > 0.9:
            note = "client-bound"
        row = {"workload": workload.name, "figure": figure, "ours": value, "peer": other, "ratio": ratio}
        rows.append({**row, "peer_name": names[1] if other else "", "target": target, "met": is_met, "note": note})
    return rows


def print_table(rows: list[dict[str, object]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("workload", "figure", "ours", "peer", "ratio", "target", "met", "note"):
        table.add_column(column, justify="right" if column in ("ours", "peer", "ratio") else "left")
    last = None
    for row in rows:
        met = {True: "yes", False: "NO", None: ""}[row["met"]]  # type: ignore[index]
        numbers = [number(row["ours"]), number(row["peer"]), number(row["ratio"])]
        name = str(row["workload"]) if row["workload"] != last else ""
        last = row["workload"]
        table.add_row(name, str(row["figure"]), *numbers, str(row["target"]), met, str(row["note"]))
    Console(width=max(120, Console().width)).print(table)


def makers(folder: Path, cache: Path, *, has_apache: bool) -> dict[str, Callable[..., Peer]]:
    """The functions that make each peer in a folder of the given name. Raises PeerError if Apache Kafka cannot be
    fetched."""

    def moldau(name: str, *, has_tls: bool = False) -> Peer:
        return Moldau("moldau", folder / name, has_tls=has_tls)

    def apache(name: str, *, has_tls: bool = False) -> Peer:
        return ApacheKafka("apache", folder / name, libraries=libraries, has_tls=has_tls)

    if not has_apache:
        return {"moldau": moldau}
    libraries = fetch_kafka(cache)
    return {"moldau": moldau, "apache": apache}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], help="only workloads whose file name holds this word")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-apache", action="store_true", help="no peer, no ratios: for a quick look")
    warm_memory.add_option(parser)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "latest.json")
    arguments = parser.parse_args()
    names = [name for name in ORDER if not arguments.only or any(word in name for word in arguments.only)]
    rows: list[dict[str, object]] = []
    rounds: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="moldau-bench-") as folder, warm_memory.asked_for(arguments) as memory:
        make = makers(Path(folder), CACHE, has_apache=not arguments.without_apache)
        bench = Bench(make, arguments.rounds, Path(folder), CACHE, memory)
        try:
            specs = [read_workload(name) for name in names]
            workloads = [
                row for spec in specs for row in ([spec.over(name) for name in spec.brokers if name in make] or [spec])
            ]
            for workload in workloads:
                say(workload.name)
                try:
                    rounds[workload.name] = seen = run(bench, workload)
                except PeerError as error:
                    say(f"  not measured: {error}")
                    rows.append(unmeasured(workload, error))
                else:
                    rows += judge(workload, seen)
        finally:
            bench.stop_peers()
    print_table(rows)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
    arguments.output.write_text(json.dumps({"machine": machine, "rows": rows, "rounds": rounds}, indent=1))
    say(f"all figures: {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
