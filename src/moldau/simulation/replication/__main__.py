"""`python -m moldau.simulation.replication --seed 7`: one seed, told; `--seeds 1..300`: many, counted.

Exit code 0 if no rule was broken, else 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterator

from moldau.simulation.replication.world import Outcome, run_seed


def main(arguments: list[str] | None = None) -> int:
    """Runs the seeds that the command line names; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m moldau.simulation.replication", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the one seed to run")
    parser.add_argument("--seeds", metavar="A..B", help="all seeds from A to B")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the seeds")
    parser.add_argument("--verbose", action="store_true", help="tell the story while it happens")
    parser.add_argument("--digests", action="store_true", help="print only seed and digest, to compare two runs")
    parser.add_argument("--max-failures", type=int, default=10, help="stop after so many broken seeds")
    options = parser.parse_args(arguments)
    first, _, last = (options.seeds or str(options.seed)).partition("..")
    seeds = list(range(int(first), int(last or first) + 1))
    began = time.perf_counter()
    failed = truncations = elections = records = unclean = without_promise = 0
    for outcome in _run_all(seeds, options.jobs, is_told=options.verbose):
        failed += bool(outcome.rule)
        truncations += outcome.truncations
        elections += outcome.elections
        records += outcome.acknowledged
        unclean += outcome.unclean_elections
        without_promise += outcome.is_loss_allowed
        if outcome.rule or options.digests or len(seeds) == 1:
            print(_summary(outcome), flush=True)
        if failed >= options.max_failures:
            break
    if not options.digests:
        print(
            f"{len(seeds)} seeds, {failed} broken, {elections} elections ({unclean} unclean), "
            f"{truncations} truncations, {records} records, "
            f"{without_promise} seeds with more failures than the promise covers, "
            f"{time.perf_counter() - began:.1f} s"
        )
    return 1 if failed else 0


def _run_all(seeds: list[int], jobs: int, *, is_told: bool) -> Iterator[Outcome]:
    if jobs > 1 and len(seeds) > 1:
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            yield from pool.imap(run_seed, seeds, chunksize=1)
        return
    for seed in seeds:
        yield run_seed(seed, write_line=print if is_told else None)


def _summary(outcome: Outcome) -> str:
    if not outcome.rule:
        return (
            f"seed {outcome.seed}: ok, {outcome.elections} elections, {outcome.truncations} truncations, "
            f"{outcome.acknowledged} records acknowledged, {outcome.elapsed_s:.2f} s, {outcome.digest}"
        )
    lines = [f"seed {outcome.seed}: BROKEN {outcome.rule}", f"  {outcome.detail}", "  the story:"]
    lines += [f"    {line}" for line in outcome.story]
    lines += ["  the last events:", *(f"    {line}" for line in outcome.last_events[-30:])]
    lines.append(f"  again: python -m moldau.simulation.replication --seed {outcome.seed} --verbose")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
