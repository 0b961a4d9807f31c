"""Plants bugs into modules as a forked child imports them, and checks that simulator seeds or tests find them.

The parent imports the unchanged modules once. Each bug has its own child, where an import hook replaces the module's
source by the changed one: no file is copied, and parent and files stay unchanged. Python processes that a test starts
itself do not have the bug.
"""

from __future__ import annotations

import ast
import gc
import importlib
import json
import multiprocessing
import os
import re
import sys
import tempfile
import textwrap
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from multiprocessing.connection import wait
from pathlib import Path
from types import CodeType
from typing import IO, TypeGuard

import msgspec

import moldau

PACKAGE = Path(moldau.__file__).parent
ROOT = Path(__file__).parents[2]
BUGS_FILE = Path(__file__).with_name("planted_bugs.toml")
SEEDS_FILE = Path(__file__).with_name("planted_seeds.json")
ONE_BROKER = "moldau.simulation"
PRELOADED = "moldau.wire"
"""Imported by the parent: it holds many modules, and imports nothing above it. A bug planted there imports it again."""
FIRST_SEEDS = "1..40"
TIMEOUT_S = 900.0
SEARCH_TIMEOUT_S = 3_600.0
FOUND, NOT_FOUND = 0, 3
"""Exit codes of a child. With any other code it failed, or was killed."""


class Change(msgspec.Struct, frozen=True):
    """`old`, an expression or statements, occurs once in the syntax tree of the package's `file` (of the function or
    class `within`, if given); `new` replaces it."""

    file: str
    old: str
    new: str
    within: str = ""

    def applied(self, source: str) -> str:
        """`source` with the change in it. Raises ValueError unless `old` occurs exactly once."""
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
    """The function or class of that name; `Class.method` is a method."""
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
        super().generic_visit(node)  # first: the replacement may contain the old text
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
    """`rules`: the first broken rule must be one of these; none: any. `kind`: only seeds that have it can
    find the bug. `unfound`: why no seed finds it, and `test` the test that does: a test file, or one test in it.
    `simulator`: the module whose seeds must find it. `seconds_virtual`: how long its faults last; 0: as usual."""

    name: str
    change: tuple[Change, ...]
    rules: tuple[str, ...] = ()
    kind: str = ""
    unfound: str = ""
    test: str = ""
    simulator: str = ONE_BROKER
    seconds_virtual: int = 0


class Found(msgspec.Struct, frozen=True):
    """A seed that finds a bug, and the broken rule."""

    seed: int
    rule: str


def bugs_in(text: str) -> tuple[Bug, ...]:
    """The bugs of a text like planted_bugs.toml. Raises ValueError if it is invalid."""
    return msgspec.convert(tomllib.loads(text).get("bug"), tuple[Bug, ...])


def all_bugs() -> tuple[Bug, ...]:
    """Every planted bug, in the order of the file."""
    return bugs_in(BUGS_FILE.read_text())


def recorded_seeds() -> dict[str, Found]:
    """By the name of the bug."""
    return msgspec.convert(json.loads(SEEDS_FILE.read_text()), dict[str, Found])


class PlantedModules:
    """A finder for `sys.meta_path`: compiles modules from `sources` (by module name), not from their files."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources
        self._loaded: set[str] = set()

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        if name not in self._sources:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.origin is None:
            raise ImportError(f"{name} has no file")
        loader = _ChangedSource(name, spec.origin, self._sources[name], self._loaded)
        return spec_from_file_location(
            name, spec.origin, loader=loader, submodule_search_locations=spec.submodule_search_locations
        )

    def check_loaded(self) -> None:
        """Raises ImportError if a changed module was never imported: its bug could not take effect."""
        if missing := self._sources.keys() - self._loaded:
            raise ImportError(f"never imported, so the bug took no effect: {', '.join(sorted(missing))}")


class _ChangedSource(SourceFileLoader):
    def __init__(self, name: str, path: str, source: str, loaded: set[str]) -> None:
        super().__init__(name, path)
        self._source, self._loaded = source, loaded

    def get_code(self, fullname: str) -> CodeType:
        self._loaded.add(fullname)
        return self.source_to_code(self._source.encode(), self.path)


def plant(changes: Iterable[Change]) -> PlantedModules:
    """Makes this process import the changed sources. Raises ValueError if a change leaves the source unchanged."""
    sources: dict[str, str] = {}
    for change in changes:
        name = _module_name(change.file)
        before = sources.get(name) or (PACKAGE / change.file).read_text()
        sources[name] = change.applied(before)
        if sources[name] == ast.unparse(ast.parse(before)):
            raise ValueError(f"{change.file}: what the bug plants there is what stands there")
    if sources.keys() & sys.modules.keys():
        for name in [name for name in sys.modules if name.split(".")[0] == "moldau"]:
            del sys.modules[name]
    planted = PlantedModules(sources)
    sys.meta_path.insert(0, planted)
    return planted


def _module_name(file: str) -> str:
    """Of a file of the package: `core/log/log.py` is moldau.core.log.log."""
    return ".".join(["moldau", *Path(file).with_suffix("").parts]).removesuffix(".__init__")


class Ended(msgspec.Struct, frozen=True):
    """How a child ended."""

    exit_code: int
    output: str
    seconds: float


class _Child:
    """A forked process that calls `work`; its output goes into a file."""

    def __init__(self, work: Callable[[], int], timeout_s: float) -> None:
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - `ended` closes it
        self._process = multiprocessing.get_context("fork").Process(target=_do, args=(work, self._output.fileno()))
        self._began = time.monotonic()
        self.deadline = self._began + timeout_s
        self._process.start()
        self.sentinel = self._process.sentinel

    def kill(self) -> None:
        self._process.kill()

    def ended(self) -> Ended:
        """Waits until the process has ended."""
        self._process.join(60)
        seconds = time.monotonic() - self._began
        self._output.seek(0)
        output = self._output.read().decode(errors="replace")
        self._output.close()
        code = self._process.exitcode
        return Ended(-1 if code is None else code, output, seconds)


def _do(work: Callable[[], int], output: int) -> None:
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout, sys.stderr = (os.fdopen(fd, "w", buffering=1, closefd=False) for fd in (1, 2))
    os.chdir(ROOT)
    sys.exit(work())


def run_forked(works: Sequence[Callable[[], int]], jobs: int = 1, timeout_s: float = 60) -> Iterator[tuple[int, Ended]]:
    """Runs each of `works` in a child, `jobs` at once; gives the index of each that ended. A child is killed after
    `timeout_s`."""
    waiting = list(enumerate(works))[::-1]
    running: dict[int, _Child] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                index, work = waiting.pop()
                running[index] = _Child(work, timeout_s)
            next_deadline = min(child.deadline for child in running.values())
            gone = wait([child.sentinel for child in running.values()], max(0, next_deadline - time.monotonic()))
            for index, child in list(running.items()):
                if child.sentinel not in gone:
                    if time.monotonic() < child.deadline:
                        continue
                    child.kill()
                yield index, running.pop(index).ended()
    finally:
        for child in running.values():
            child.kill()
            child.ended()


def preload(simulators: Iterable[str]) -> None:
    """Imports what children need and no bug changes: third-party packages, and PRELOADED."""
    wanted = ["pytest", "hypothesis", *(f"{simulator}.__main__" for simulator in simulators)]
    _, ended = next(run_forked([partial(_print_imported, wanted)]))
    if ended.exit_code:
        raise ImportError(ended.output)
    for name in ended.output.split():
        if name.split(".")[0] not in ("moldau", "tests") or f"{name}.".startswith(f"{PRELOADED}."):
            with suppress(ImportError):  # a few entries of sys.modules are not modules
                importlib.import_module(name)
    gc.collect()
    gc.freeze()  # collections in a child do not walk over it, which would also copy its memory


def _print_imported(wanted: Iterable[str]) -> int:
    for name in wanted:
        importlib.import_module(name)
    print("\n".join(list(sys.modules)))
    return 0


class Outcome(msgspec.Struct, frozen=True):
    """The result of looking for a bug. `problem` is the reason why it counts as not found; "" if it is found."""

    bug: Bug
    found: Found | None
    problem: str
    seconds: float


def look_for(
    bugs: Sequence[Bug], seeds_of: Callable[[Bug], Sequence[str]], jobs: int, timeout_s: float = TIMEOUT_S
) -> Iterator[Outcome]:
    """Runs the test of each bug, or its seeds if it has no test, and gives each outcome as soon as it is known.
    `seeds_of`: ranges of seeds, tried in order until one finds it."""
    works = [partial(_test, bug) if bug.test else partial(_simulate, bug, seeds_of(bug)) for bug in bugs]
    for index, ended in run_forked(works, jobs, timeout_s):
        found, problem = found_in(ended.output), ""
        bug = bugs[index]
        if ended.exit_code == NOT_FOUND:
            problem = "not found"
        elif ended.exit_code != FOUND or (found is None and not bug.test):
            problem = f"the run failed ({ended.exit_code}, {ended.seconds:.0f} s)"
        elif found is not None and bug.rules and found.rule not in bug.rules:
            problem = f"breaks another rule: {found.rule}"
        if problem:
            problem += textwrap.indent("\n" + ended.output[-2_000:], "    ")
        yield Outcome(bug, found, problem, ended.seconds)


def _simulate(bug: Bug, ranges: Sequence[str]) -> int:
    planted = plant(bug.change)
    options = ["--with", bug.kind] if bug.kind else []
    if bug.seconds_virtual:
        options += ["--seconds-virtual", str(bug.seconds_virtual)]
    simulator = importlib.import_module(f"{bug.simulator}.__main__")
    for seeds in ranges:
        is_broken = simulator.main(["--seeds", seeds, "--max-failures", "1", *options])
        planted.check_loaded()
        if is_broken:
            return FOUND
    return NOT_FOUND


def _test(bug: Bug) -> int:
    import pytest

    planted = plant(bug.change)
    # without the rewriting of asserts, for which pytest has its own import hook
    exit_code = pytest.main(["-x", "-p", "no:cacheprovider", "--assert=plain", bug.test])
    planted.check_loaded()
    if exit_code == pytest.ExitCode.TESTS_FAILED:
        return FOUND
    return NOT_FOUND if exit_code == pytest.ExitCode.OK else 1


def found_in(output: str) -> Found | None:
    """The output of a run of seeds about the first one that broke a rule."""
    found = re.search(r"^seed (\d+): BROKEN (.*)$", output, re.MULTILINE)
    return None if found is None else Found(int(found[1]), found[2])
