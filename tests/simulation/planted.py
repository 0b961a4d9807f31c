"""`python -m tests.simulation.planted` (`make planted`): is each planted bug found?

Without options it runs every bug: its recorded seed, then the first few seeds; 1..300 for a bug without a seed. If all
are found, planted_run.json records the commit. `--changed` (`make planted-changed`, in CI) runs the bugs that a change
since that commit may affect, and names the others. `--again` searches the first seed of each bug once more and records
it, `--page` prints docs/reference/planted-bugs.md. Exit code 0 if every bug is found, else 1.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import textwrap
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from tests.simulation.planting import (
    BUGS_FILE,
    FIRST_SEEDS,
    ONE_BROKER,
    ROOT,
    SEARCH_TIMEOUT_S,
    SEEDS_FILE,
    TIMEOUT_S,
    Bug,
    Found,
    all_bugs,
    bugs_in,
    look_for,
    preload,
    recorded_seeds,
)
from tests.support.recorded_runs import changed_since, clean_commit, git

PAGE = ROOT / "docs" / "reference" / "planted-bugs.md"
RUN_FILE = Path(__file__).with_name("planted_run.json")
LAST_SEED = 300
SIMULATION = "src/moldau/simulation/"
IMPORTED_BY = {"cluster": {"cluster"}, "raft": {"raft", "cluster"}, "replication": {"replication", "raft", "cluster"}}
"""Packages of the simulation, and the simulators that import each. All simulators may import the other modules."""
RECORDED = ("src", "tests", ":(exclude)tests/simulation/planted_*.json")
"""The paths that must be committed when a run is recorded. The run itself writes the excluded files."""
SHARED = (SIMULATION, "src/moldau/shell/io/simulated/", "tests/simulation/planting.py")
"""A change of these may affect every simulator."""


class Run(msgspec.Struct, frozen=True):
    """The last run that found all bugs: its commit, and the names of the bugs."""

    commit: str
    found: tuple[str, ...]


class Changes(msgspec.Struct, frozen=True):
    """The changes since a recorded run: the changed paths, and the bugs as they were then, by name."""

    paths: frozenset[str]
    bugs_then: dict[str, Bug]


def recorded_run() -> Run | None:
    """None if no readable run exists."""
    try:
        return msgspec.json.decode(RUN_FILE.read_bytes(), type=Run)
    except (OSError, msgspec.DecodeError):
        return None


def changes_since(commit: str, root: Path = ROOT) -> Changes | None:
    """Includes uncommitted changes. None if the history lacks the commit."""
    changed = changed_since(commit, "src", "tests", root=root)
    definitions = git("show", f"{commit}:{BUGS_FILE.relative_to(ROOT)}", root=root)
    if changed is None or definitions is None:
        return None
    try:
        then = {bug.name: bug for bug in bugs_in(definitions)}
    except ValueError:
        return None
    return Changes(changed, then)


def due(bugs: Iterable[Bug], found: Collection[str], changes: Changes | None) -> list[Bug]:
    """The bugs that must run: those not `found` by the recorded run, and those that `changes` may affect (None:
    unknown, so all)."""
    if changes is None:
        return list(bugs)
    simulators = {simulator for path in changes.paths for simulator in _changed_simulators(path)}
    return [
        bug
        for bug in bugs
        if bug.name not in found
        or changes.bugs_then.get(bug.name) != bug
        or not simulators.isdisjoint(("all", bug.simulator))
        or not changes.paths.isdisjoint(_files(bug))
    ]


def _changed_simulators(path: str) -> set[str]:
    """The simulators that a change of `path` may affect, or "all"."""
    package = path.removeprefix(SIMULATION).split("/")[0]
    if path.startswith(SIMULATION) and package in IMPORTED_BY:
        return {f"{ONE_BROKER}.{name}" for name in IMPORTED_BY[package]}
    return {"all"} if path.startswith(SHARED) else set()


def _files(bug: Bug) -> list[str]:
    """The file where it is planted, and its test."""
    return [f"src/moldau/{change.file}" for change in bug.change] + [bug.test.split("::")[0]] * bool(bug.test)


def page() -> str:
    """docs/reference/planted-bugs.md: each bug, its place, and the seed or test that finds it."""
    bugs, seeds = all_bugs(), recorded_seeds()
    of_cluster = [bug for bug in bugs if bug.simulator != ONE_BROKER]
    lines = [
        "# Planted bugs",
        "",
        "These bugs are planted into the package, one at a time, to show that the simulator finds bugs. A seed must",
        f"find each of them, or a test if no seed can. Of the {len(bugs)}, {_found(bugs, seeds)}. Of the",
        f"{len(of_cluster)} of a cluster (its quorum, its replicas, whole nodes), {_found(of_cluster, seeds)}.",
        "",
        "`make planted` runs every seed and test of this table, and records the commit in",
        "`tests/simulation/planted_run.json`. CI (`make planted-changed`) runs a bug again if a later commit",
        "changes the file where it is planted, its test, its definition in `tests/simulation/planted_bugs.toml`,",
        "or its simulator. If CI does not know the recorded commit, it runs all bugs.",
        "",
        "| bug | planted in | the seed or the test that finds it | the rule that it breaks |",
        "|---|---|---|---|",
    ]
    for bug in bugs:
        files = ", ".join(dict.fromkeys(f"`{change.file}`" for change in bug.change))
        known = seeds.get(bug.name)
        seed = "" if known is None else f"`{bug.simulator.removeprefix('moldau.')} --seed {known.seed}`"
        found_by = seed or (f"`{bug.test}`" if bug.test else "none")
        lines.append(f"| {bug.name} | {files} | {found_by} | {known.rule if known else f'by no seed: {bug.unfound}'} |")
    return "\n".join([*lines, ""])


def _found(bugs: Sequence[Bug], seeds: Mapping[str, Found]) -> str:
    by_seeds, by_tests = sum(bug.name in seeds for bug in bugs), sum(bool(bug.test) for bug in bugs)
    return f"{by_seeds} are found by seeds and {by_tests} more by tests"


def save(seeds: Mapping[str, Found], bugs: Iterable[Bug]) -> None:
    """Writes the seeds in the order of the bugs, and the reference page."""
    rows = {bug.name: msgspec.to_builtins(seeds[bug.name]) for bug in bugs if bug.name in seeds}
    SEEDS_FILE.write_text(json.dumps(rows, indent=2) + "\n")
    PAGE.write_text(page())


def left_out(bugs: Sequence[Bug], running: Sequence[Bug], commit: str) -> str:
    """Prints the bugs that do not run, and why."""
    names = [bug.name for bug in bugs if bug not in running]
    if not names:
        return f"all {len(bugs)} planted bugs run"
    says = (
        f"{len(running)} of {len(bugs)} planted bugs run; no change since {commit[:8]} concerns the other {len(names)}:"
    )
    return "\n".join([says, textwrap.fill("; ".join(names), 118, initial_indent="  ", subsequent_indent="  ")])


def run(bugs: Sequence[Bug], jobs: int, *, is_search: bool = False, is_saved: bool = True) -> list[str]:
    """Looks for `bugs` and prints each; gives the names of those that should be found but were not. `is_search`: looks
    for the first seed even if one is known. `is_saved`: saves new seeds."""
    everything, seeds = all_bugs(), recorded_seeds()

    def seeds_of(bug: Bug) -> list[str]:
        known = None if is_search else seeds.get(bug.name)
        return [f"1..{LAST_SEED}"] if known is None else [f"{known.seed}..{known.seed}", FIRST_SEEDS]

    missed = []
    began = time.monotonic()
    is_long = is_search or any(bug.name not in seeds and not bug.test for bug in bugs)
    preload({bug.simulator for bug in bugs})
    for count, outcome in enumerate(look_for(bugs, seeds_of, jobs, SEARCH_TIMEOUT_S if is_long else TIMEOUT_S), 1):
        bug, found = outcome.bug, outcome.found
        says = f"seed {found.seed}, {found.rule}" if found else f"by {bug.test.split('::')[0]}"
        print(f"[{count} of {len(bugs)}] {bug.name}: {outcome.problem or says} ({outcome.seconds:.1f} s)", flush=True)
        if outcome.problem and not (is_search and bug.unfound):
            missed.append(bug.name)
        elif found is not None and not outcome.problem and is_saved and seeds.get(bug.name) != found:
            seeds[bug.name] = found
            save(seeds, everything)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    took_s, cpu_s = time.monotonic() - began, used.ru_utime + used.ru_stime
    print(f"{len(bugs)} planted bugs, {len(missed)} not found, {took_s:.0f} s, {cpu_s:.0f} s of processor time")
    return missed


def run_all(jobs: int) -> list[str]:
    """Looks for all findable bugs, and records the commit if all are found."""
    bugs = findable(all_bugs())
    commit = clean_commit(*RECORDED)
    if not commit:
        print(f"This run is not recorded in {RUN_FILE.name}: src or tests have changes that are not committed.")
    missed = run(bugs, jobs)
    if not missed and commit and commit == clean_commit(*RECORDED):
        recorded = Run(commit, tuple(bug.name for bug in bugs))
        RUN_FILE.write_text(json.dumps(msgspec.to_builtins(recorded), indent=1) + "\n")
    return missed


def run_changed(jobs: int) -> list[str]:
    """Looks for the bugs that a change since the recorded run may affect; names the others."""
    bugs = findable(all_bugs())
    recorded = recorded_run() or Run("", ())
    changes = changes_since(recorded.commit) if recorded.commit else None
    if changes is None:
        print("No recorded run, or this history lacks its commit.")
    running = due(bugs, recorded.found, changes)
    print(left_out(bugs, running, recorded.commit), flush=True)
    return run(running, jobs, is_saved=False) if running else []


def findable(bugs: Iterable[Bug]) -> list[Bug]:
    """The bugs that a seed or a test finds."""
    return [bug for bug in bugs if bug.test or not bug.unfound]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.planted", description=__doc__)
    parser.add_argument("--changed", action="store_true", help="only bugs that a change since that run concerns")
    parser.add_argument("--again", action="store_true", help="search the first seed of each bug once more")
    parser.add_argument("--bug", default="", metavar="TEXT", help="only bugs whose name holds TEXT")
    parser.add_argument("--jobs", type=int, default=1, help="bugs that run at once")
    parser.add_argument("--page", action="store_true", help="print the table of all bugs, and run none")
    options = parser.parse_args()
    named = [bug for bug in all_bugs() if options.bug in bug.name]
    if options.page:
        print(page(), end="")
        return 0
    if options.again:
        missed = run([msgspec.structs.replace(bug, test="") for bug in named], options.jobs, is_search=True)
    elif options.bug:
        missed = run(findable(named), options.jobs)
    else:
        missed = run_changed(options.jobs) if options.changed else run_all(options.jobs)
    for name in missed:
        print(f"NOT FOUND: {name}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
