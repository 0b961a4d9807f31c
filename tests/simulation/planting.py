"""Plants bugs into copies of the package and looks which seeds of the simulator find them.

`python -m tests.simulation.planting` (`make planted`) searches a seed for each bug that has none, the first of
1..300, and writes what it found into planted_seeds.json. `--again` searches for all of them once more, `--bug TEXT`
for those whose name holds TEXT, `--page` prints docs/reference/planted-bugs.md.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeGuard

import msgspec

import moldau

PACKAGE = Path(moldau.__file__).parent
BUGS_FILE = Path(__file__).with_name("planted_bugs.toml")
SEEDS_FILE = Path(__file__).with_name("planted_seeds.json")
ONE_BROKER = "moldau.simulation"
LAST_SEED = 300
RUN_TIMEOUT_S = 3_600


class Change(msgspec.Struct, frozen=True):
    """`old`, an expression or statements, stands once in the syntax tree of `file` of the package (of the function or
    class `within`, where it is named); `new` takes its place."""

    file: str
    old: str
    new: str
    within: str = ""

    def applied(self, source: str) -> str:
        """`source` with the change in it. Raises ValueError where `old` does not stand there once."""
        module = ast.parse(source)
        old, new = (ast.parse(textwrap.dedent(text)).body for text in (self.old, self.new))
        place = module if not self.within else _named(module, self.within)
        if _is_expression(old) and _is_expression(new):
            replacing: _ReplaceExpression | _ReplaceStatements = _ReplaceExpression(old[0].value, new[0].value)
        else:
            replacing = _ReplaceStatements(old, new)
        replacing.visit(place)
        if replacing.count != 1:
            raise ValueError(f"{self.file}: what the bug replaces stands there {replacing.count} times: {self.old}")
        return ast.unparse(ast.fix_missing_locations(module))


def _is_expression(statements: list[ast.stmt]) -> TypeGuard[list[ast.Expr]]:
    return len(statements) == 1 and isinstance(statements[0], ast.Expr)


def _named(module: ast.Module, name: str) -> ast.AST:
    """The function or class of that name, `Class.method` for a method."""
    place: ast.AST = module
    for part in name.split("."):
        place = next(node for node in ast.walk(place) if getattr(node, "name", None) == part)
    return place


class _ReplaceExpression(ast.NodeTransformer):
    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self.old, self.new, self.count = ast.dump(old), new, 0

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and ast.dump(node) == self.old:
            self.count += 1
            return self.new
        return self.generic_visit(node)


class _ReplaceStatements(ast.NodeTransformer):
    def __init__(self, old: list[ast.stmt], new: list[ast.stmt]) -> None:
        self.old, self.new, self.count = [ast.dump(each) for each in old], new, 0

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)  # first: what takes the place may hold what stood there
        for _, block in ast.iter_fields(node):
            if not (isinstance(block, list) and block and isinstance(block[0], ast.stmt)):
                continue
            dumps = [ast.dump(each) for each in block]
            size = len(self.old)
            for at in range(len(dumps) - size, -1, -1):
                if dumps[at : at + size] == self.old:
                    self.count += 1
                    block[at : at + size] = self.new
        return node


class Bug(msgspec.Struct, frozen=True):
    """`rules`: those that may be reported, whichever is broken first; none: any. `kind`: only seeds that have it can
    find the bug. `unfound`: why no seed finds it, and `test` the one that does: a file of tests, or one test of it.
    `simulator`: the module whose seeds must. `seconds_virtual`: how long trouble lasts in them; 0: as long as usual."""

    name: str
    change: tuple[Change, ...]
    rules: tuple[str, ...] = ()
    kind: str = ""
    unfound: str = ""
    test: str = ""
    simulator: str = ONE_BROKER
    seconds_virtual: int = 0


class Found(msgspec.Struct, frozen=True):
    """A seed that finds a bug, and the rule that is broken."""

    seed: int
    rule: str


def all_bugs() -> tuple[Bug, ...]:
    """Every planted bug, in the order of the file."""
    return msgspec.convert(tomllib.loads(BUGS_FILE.read_text())["bug"], tuple[Bug, ...])


def recorded_seeds() -> dict[str, Found]:
    """By the name of the bug."""
    return msgspec.convert(json.loads(SEEDS_FILE.read_text()), dict[str, Found])


def plant(bug: Bug, directory: Path) -> Path:
    """A copy of the package with the bug in it; gives what to put on PYTHONPATH."""
    # with what Python compiled of it: only the changed files are compiled anew
    shutil.copytree(PACKAGE, directory / "moldau")
    for change in bug.change:
        path = directory / "moldau" / change.file
        path.write_text(change.applied(path.read_text()))
    return directory


def simulate(python_path: Path, seeds: str, bug: Bug) -> subprocess.CompletedProcess[str]:
    """Runs those of `seeds` that have the bug's kind against the package under `python_path`, up to the first that
    breaks a rule."""
    options = ["--with", bug.kind] if bug.kind else []
    if bug.seconds_virtual:
        options += ["--seconds-virtual", str(bug.seconds_virtual)]
    return subprocess.run(
        [sys.executable, "-m", bug.simulator, "--seeds", seeds, "--max-failures", "1", *options],
        env={**os.environ, "PYTHONPATH": str(python_path)},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )


def run_test(python_path: Path, bug: Bug) -> subprocess.CompletedProcess[str]:
    """Runs the bug's test against the package under `python_path`."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", bug.test],
        env={**os.environ, "PYTHONPATH": str(python_path)},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )


def found_in(output: str) -> Found | None:
    """What a run of seeds printed about the first that broke a rule."""
    found = re.search(r"^seed (\d+): BROKEN (.*)$", output, re.MULTILINE)
    return None if found is None else Found(int(found[1]), found[2])


def search(bug: Bug, last_seed: int) -> tuple[Found | None, float]:
    """The first seed of 1..`last_seed` that finds `bug`, and how many seconds the search took."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        found = found_in(simulate(plant(bug, Path(directory)), f"1..{last_seed}", bug).stdout)
    return found, time.perf_counter() - began


def save(seeds: dict[str, Found], bugs: Iterable[Bug]) -> None:
    """Writes the seeds in the order of the bugs."""
    rows = {bug.name: msgspec.to_builtins(seeds[bug.name]) for bug in bugs if bug.name in seeds}
    SEEDS_FILE.write_text(json.dumps(rows, indent=2) + "\n")


def page() -> str:
    """docs/reference/planted-bugs.md: what was planted where, and what finds it."""
    bugs, seeds = all_bugs(), recorded_seeds()
    of_cluster = [bug for bug in bugs if bug.simulator != ONE_BROKER]
    lines = [
        "# Planted bugs",
        "",
        "A simulator that finds nothing may be blind. So bugs are planted into copies of the package, one at a time,",
        f"and seeds must find them, or a test where no seed can. Of the {len(bugs)}, {_found(bugs, seeds)}; of the",
        f"{len(of_cluster)} of a cluster (its quorum, its replicas, whole nodes), {_found(of_cluster, seeds)}.",
        "CI runs each seed and each test of this table (`make planted` searches the seeds of new bugs); what exactly",
        "is planted stands in `tests/simulation/planted_bugs.toml`.",
        "",
        "| what is wrong | planted in | the seed or the test that finds it | the rule that it breaks |",
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


def main() -> int:
    """Exit code 0 if every bug that is not known as unfound is found."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.planting", description=__doc__)
    parser.add_argument("--again", action="store_true", help="also for bugs whose seed is known")
    parser.add_argument("--bug", default="", metavar="TEXT", help="only bugs whose name holds TEXT")
    parser.add_argument("--last", type=int, default=LAST_SEED, help="the last seed that is tried")
    parser.add_argument("--jobs", type=int, default=1, help="bugs that are searched for at once")
    parser.add_argument("--page", action="store_true", help="print the table of all bugs, and search for none")
    options = parser.parse_args()
    if options.page:
        print(page(), end="")
        return 0
    bugs, seeds = all_bugs(), recorded_seeds()
    wanted = [bug for bug in bugs if options.bug in bug.name and (options.again or bug.name not in seeds)]
    missed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for bug, (found, took_s) in zip(wanted, pool.map(lambda bug: search(bug, options.last), wanted), strict=True):
            print(f"{bug.name}: {found or 'not found'} ({took_s:.0f} s)", flush=True)
            seeds.pop(bug.name, None)
            if found is not None:
                seeds[bug.name] = found
            elif not bug.unfound:
                missed += 1
            save(seeds, bugs)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
