"""`python -m moldau.simulation.raft --seed 7`: one seed, step by step; `--seeds 1..300`: many, counted.

Exit code 0 if no rule was broken, else 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial

from moldau.simulation.raft.world import Outcome, run_seed
from moldau.simulation.seeds import add_seed_options, broken_lines, chosen_seeds, outcomes


def main(arguments: list[str] | None = None) -> int:
    """Runs the seeds that the command line names; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m moldau.simulation.raft", description=__doc__)
    add_seed_options(parser)
    options = parser.parse_args(arguments)
    seeds = chosen_seeds(options)
    began = time.perf_counter()
    failed = elections = truncations = snapshots = loads = changes = records = 0
    run_told = partial(run_seed, write_line=print if options.verbose else None)
    for outcome in outcomes(seeds, options.jobs, run_seed, run_told):
        failed += bool(outcome.rule)
        elections += outcome.elections
        truncations += outcome.truncations
        snapshots += outcome.snapshots
        loads += outcome.loads
        changes += outcome.voter_changes
        records += outcome.acknowledged
        if outcome.rule or options.digests or len(seeds) == 1:
            print(_summary(outcome), flush=True)
        if failed >= options.max_failures:
            break
    if not options.digests:
        print(
            f"{len(seeds)} seeds, {failed} broken, {elections} elections, {truncations} truncations, "
            f"{snapshots} snapshots, {loads} of them loaded, "
            f"{changes} voter changes, {records} records, {time.perf_counter() - began:.1f} s"
        )
    return 1 if failed else 0


def _summary(outcome: Outcome) -> str:
    if outcome.rule:
        return broken_lines("moldau.simulation.raft", outcome)
    return (
        f"seed {outcome.seed}: ok, {outcome.elections} elections, {outcome.truncations} truncations, "
        f"{outcome.acknowledged} records acknowledged, {outcome.elapsed_s:.2f} s, {outcome.digest}"
    )


if __name__ == "__main__":
    sys.exit(main())
