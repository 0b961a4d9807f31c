"""`make bench-against REV=COMMIT`: compares an older commit of Moldau with the checked-out one, in one run.

    python -m benchmarks.against REV [--rounds 7] [--only WORD] [--output FILE]

Three brokers run at once: the old commit, the new one, and a second one of the old commit. Each round measures each of
them once, in alternating order. A pair is the new figure of a round divided by the old one; the verdict is the median
of the pairs. The old commit compared with itself shows the noise of the machine. Broker CPU may cost at most 3 % more;
any other figure must lie within the spread of old against old.

A machine's speed can change by a quarter within seconds. The workloads that count CPU for each request therefore run in
short slices: a round is fifty turns of the three brokers, and each turn is a pair. Two processes of the same code
differ by up to 7 % for their whole life (hash seed, memory layout), so these workloads start new brokers after every
ten turns. A round of large requests has ten turns, and new brokers after every five. Their CPU may cost at most 5 %
more. Page faults are shown without a limit.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path

import msgspec

from benchmarks.peers import CACHE, Moldau, Peer
from benchmarks.run import KINDS, ORDER, Bench, Figures, medians, number, run_beside_peers, say, short
from benchmarks.workload import Workload, read_workload

ROOT = Path(__file__).parent.parent
OLD, NEW, AGAIN = "old", "new", "old again"
COMPARED = ("throughput", "latency", "one_record", "canned", "large", "start", "memory")
CPU_LIMIT = 1.03
CPU_LIMITS = {"large": 1.05}
"""For kinds whose limit differs."""
NOT_OF_THE_BROKER = ("loader_ceiling", "reader_cores")


@dataclass(frozen=True)
class Slicing:
    """How a workload's round is cut into slices."""

    lives: int
    """The number of broker starts in a round."""
    slices_of_a_life: int

    @property
    def slices(self) -> int:
        return self.lives * self.slices_of_a_life


SLICED = {"one_record": Slicing(5, 10), "canned": Slicing(5, 10), "large": Slicing(2, 5)}


@dataclass
class MoldauOf(Moldau):
    """`moldau up` from the sources in `source`, with the packages of this environment."""

    source: Path = Path()

    def prepare(self) -> None:
        self.environment = {"PYTHONPATH": str(self.source)}


def source_of(revision: str, folder: Path) -> Path:
    """The folder `src` of that commit. Raises CalledProcessError for an unknown commit."""
    archive = subprocess.run(["git", "archive", revision, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder / "src"


def by_round(figures: list[float], rounds: int) -> list[float]:
    """The median of each round's slices."""
    slices = len(figures) // rounds
    return [statistics.median(figures[at : at + slices]) for at in range(0, len(figures), slices)]


def judge(workload: Workload, seen: dict[str, list[Figures]], rounds: int) -> list[dict[str, object]]:
    """One row for each figure: medians, the median of the pairs, and the spread of the old commit against itself."""
    rows: list[dict[str, object]] = []
    for figure in seen[OLD][0]:
        if "faults" in figure:
            rows.append(shown(workload, figure, seen))
            continue
        old, new, again = ([each[figure] for each in seen[name]] for name in (OLD, NEW, AGAIN))
        if figure in NOT_OF_THE_BROKER or not all(old):
            continue
        # The mean of both runs of the old commit in a round measures the machine in that round.
        pairs = [2 * b / (a + c) for a, b, c in zip(old, new, again, strict=True)]
        noise = [c / a for a, c in zip(by_round(old, rounds), by_round(again, rounds), strict=True)]
        ratio = statistics.median(pairs)
        is_better_when_more = figure.endswith("rate")
        if "cpu" in figure:
            is_met = ratio <= CPU_LIMITS.get(workload.kind, CPU_LIMIT)
        else:
            worst = min([*noise, *(1 / each for each in noise)])
            is_met = ratio >= worst if is_better_when_more else ratio <= 1 / worst
        row = {"workload": workload.name, "figure": figure}
        row |= {"old": statistics.median(old), "new": statistics.median(new)}
        spread = (min(noise), statistics.median(noise), max(noise))
        rows.append({**row, "ratio": ratio, "pairs": pairs, "old_against_old": spread, "met": is_met})
    return rows


def shown(workload: Workload, figure: str, seen: dict[str, list[Figures]]) -> dict[str, object]:
    """The row of a figure that has no limit and is 0 in many slices."""
    old, new = (statistics.median(each[figure] for each in seen[name]) for name in (OLD, NEW))
    row = {"workload": workload.name, "figure": figure, "old": old, "new": new}
    return {**row, "ratio": None, "pairs": [], "old_against_old": (), "met": True}


def run_in_slices(bench: Bench, workload: Workload) -> dict[str, list[Figures]]:
    """Like run_beside_peers, but cuts a round's requests into short turns, and starts new brokers for each life."""
    slicing = SLICED[workload.kind]
    seen: dict[str, list[Figures]] = {name: [] for name in bench.make}
    part = msgspec.structs.replace(workload, requests=workload.requests // slicing.slices)
    measure = KINDS[workload.kind]
    for life in range(bench.rounds * slicing.lives):
        brokers = {name: make(f"{name}-{workload.kind}-{bench.topics}") for name, make in bench.make.items()}
        try:
            for broker in brokers.values():
                broker.start()
                measure(bench, part, broker)  # warm-up
            for turn in range(slicing.slices_of_a_life):
                for name, broker in list(brokers.items())[:: 1 if (life + turn) % 2 == 0 else -1]:
                    seen[name].append(measure(bench, part, broker))
        finally:
            for broker in brokers.values():
                broker.stop()
                shutil.rmtree(broker.folder, ignore_errors=True)
        if life % slicing.lives == slicing.lives - 1:
            for name, figures in seen.items():
                say(f"  round {life // slicing.lives + 1} {name}: {short(medians(figures[-slicing.slices :]))}")
    return seen


def print_table(rows: list[dict[str, object]], revision: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=f"{revision} beside the checked-out commit")
    for column in ("workload", "figure", "old", "new", "new / old", "old / old: least, median, most", "ok"):
        table.add_column(column, justify="left" if column in ("workload", "figure") else "right")
    last = None
    for row in rows:
        name = str(row["workload"]) if row["workload"] != last else ""
        last = row["workload"]
        spread = ", ".join(f"{each:.3f}" for each in row["old_against_old"])  # type: ignore[attr-defined]
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
        table.add_row(
            name,
            str(row["figure"]),
            number(row["old"]),
            number(row["new"]),
            ratio,
            spread,
            "" if row["ratio"] is None else "yes" if row["met"] else "NO",
        )
    Console(width=max(140, Console().width)).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__.splitlines()[0])
    parser.add_argument("revision", help="the older commit")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", action="append", default=[], help="only workloads whose file name holds this word")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "against.json")
    arguments = parser.parse_args()
    names = [name for name in ORDER if not arguments.only or any(word in name for word in arguments.only)]
    workloads = [workload for workload in map(read_workload, names) if workload.kind in COMPARED]
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="moldau-against-") as name:
        folder = Path(name)
        old = source_of(arguments.revision, folder / "source")
        sources = {OLD: old, NEW: ROOT / "src", AGAIN: old}

        def of(source: Path, name: str, *, has_tls: bool = False) -> Peer:
            return MoldauOf(name, folder / name, source=source, has_tls=has_tls)

        make = {peer: partial(of, source) for peer, source in sources.items()}
        bench = Bench(make, arguments.rounds, folder, CACHE)
        try:
            for workload in workloads:
                say(workload.name)
                run = run_in_slices if workload.kind in SLICED else run_beside_peers
                # the names of TLS workloads say so
                seen = {name.removesuffix("-tls"): figures for name, figures in run(bench, workload).items()}
                rows += judge(workload, seen, bench.rounds)
        finally:
            bench.stop_peers()
    print_table(rows, arguments.revision)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps({"revision": arguments.revision, "rows": rows}, indent=1))
    say(f"all figures: {arguments.output}")
    return 0 if all(row["met"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
