"""The planted bugs are well-formed, planting takes effect, and CI chooses those that a change may affect.

`make planted`, and in CI `make planted-changed`, checks that each bug is found.
"""

from __future__ import annotations

import ast
import subprocess
from functools import partial
from pathlib import Path

import pytest

from moldau.simulation.seeds import too_seldom
from tests.simulation.planted import IMPORTED_BY, PAGE, Changes, changes_since, due, left_out, page
from tests.simulation.planting import (
    BUGS_FILE,
    ONE_BROKER,
    PACKAGE,
    ROOT,
    Bug,
    Change,
    all_bugs,
    plant,
    recorded_seeds,
    run_forked,
)
from tests.support.source_tree import nodes_of

BUGS = all_bugs()
EVERY_BUG = [bug.name for bug in BUGS]


def named(bug: Bug) -> str:
    return bug.name.replace(" ", "-")


@pytest.mark.parametrize("bug", BUGS, ids=named)
def test_what_a_planted_bug_replaces_stands_there_once(bug):
    for change in bug.change:
        source = (PACKAGE / change.file).read_text()
        assert change.applied(source) != ast.unparse(ast.parse(source))


def test_each_planted_bug_has_a_name_of_its_own_and_a_seed_or_a_reason():
    seeds = recorded_seeds()
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    assert [bug.name for bug in BUGS if (bug.name in seeds) == bool(bug.unfound)] == []
    assert [bug.name for bug in BUGS if bug.test and not bug.unfound] == []


def test_of_every_hundred_planted_bugs_ninety_five_are_found():
    found = sum(bool(bug.test) or not bug.unfound for bug in BUGS)
    assert found >= 0.95 * len(BUGS)


def test_the_page_has_every_planted_bug():
    says = "run: python -m tests.simulation.planted --page > docs/reference/planted-bugs.md"
    assert PAGE.read_text() == page(), says


NEVER_TOO_SELDOM = Change("simulation/seeds.py", "count < least", "False")


def lines_with(change: Change) -> int:
    planted = plant([change])
    from moldau.simulation.seeds import too_seldom as planted_too_seldom

    planted.check_loaded()
    return len(planted_too_seldom({"kill": (0, 1_000)}, 1_000))


def test_a_planted_change_takes_effect_in_the_child_and_not_in_the_parent():
    unchanged = Change("simulation/seeds.py", "count < least", "count < least or False")
    children = dict(run_forked([partial(lines_with, NEVER_TOO_SELDOM), partial(lines_with, unchanged)]))
    assert [children[index].exit_code for index in (0, 1)] == [0, 1], children
    assert len(too_seldom({"kill": (0, 1_000)}, 1_000)) == 1


def test_a_child_fails_where_its_change_cannot_take_effect():
    def never_import() -> int:
        plant([NEVER_TOO_SELDOM]).check_loaded()
        return 0

    def change_nothing() -> int:
        plant([Change("simulation/seeds.py", "count < least", "count < least")])
        return 0

    children = dict(run_forked([never_import, change_nothing]))
    assert children[0].exit_code == 1
    assert "took no effect" in children[0].output
    assert children[1].exit_code == 1
    assert "is what stands there" in children[1].output


def test_a_child_that_hangs_is_killed():
    def hang() -> int:
        while True:
            pass

    [(_, ended)] = run_forked([hang], timeout_s=0.2)
    assert ended.exit_code == -9


def chosen(*paths: str, found=EVERY_BUG, bugs_then=None) -> list[str]:
    then = {bug.name: bug for bug in BUGS} if bugs_then is None else bugs_then
    return [bug.name for bug in due(BUGS, found, Changes(frozenset(paths), then))]


def test_a_bug_runs_where_its_file_or_its_test_has_changed():
    assert chosen() == []
    assert chosen("src/moldau/core/log/log.py") == [
        bug.name for bug in BUGS if "core/log/log.py" in {change.file for change in bug.change}
    ]
    tested = next(bug for bug in BUGS if bug.test)
    assert tested.name in chosen(tested.test.split("::")[0])


def test_a_bug_runs_where_its_definition_is_new_or_the_recorded_run_did_not_find_it():
    first, second, third = BUGS[:3]
    then = {bug.name: bug for bug in BUGS[1:]} | {second.name: Bug(second.name, first.change)}
    found = [name for name in EVERY_BUG if name != third.name]
    assert chosen(found=found, bugs_then=then) == [first.name, second.name, third.name]


def test_all_bugs_run_where_the_changes_are_not_known_or_concern_every_simulator():
    assert due(BUGS, EVERY_BUG, None) == list(BUGS)
    for path in ("simulation/network.py", "simulation/workloads/readers.py", "shell/io/simulated/memory_disk.py"):
        assert chosen(f"src/moldau/{path}") == EVERY_BUG
    assert chosen("tests/simulation/planting.py") == EVERY_BUG


def test_the_bugs_of_the_simulators_that_import_a_package_run_where_it_has_changed():
    cluster, raft = (
        [bug.name for bug in BUGS if bug.simulator == f"{ONE_BROKER}.{name}"] for name in ("cluster", "raft")
    )
    assert chosen("src/moldau/simulation/cluster/world.py") == cluster
    assert set(chosen("src/moldau/simulation/raft/ledger.py")) == {*cluster, *raft}


def test_no_other_simulator_imports_the_package_of_one():
    def imported_packages(path: Path) -> set[str]:
        modules = [node.module or "" for node in nodes_of(path) if isinstance(node, ast.ImportFrom)]
        return {module.split(".")[2] for module in modules if module.startswith(f"{ONE_BROKER}.")} & IMPORTED_BY.keys()

    folder = PACKAGE / "simulation"
    imports = {path.relative_to(folder).parts[0]: set() for path in folder.rglob("*.py")}
    for path in folder.rglob("*.py"):
        imports[path.relative_to(folder).parts[0]] |= imported_packages(path)
    assert {
        package: {importer for importer, packages in imports.items() if package in packages} | {package}
        for package in IMPORTED_BY
    } == IMPORTED_BY


def test_the_changes_are_those_since_the_recorded_commit_also_uncommitted_ones(tmp_path):
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()

    def write(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    def commit() -> str:
        git("add", ".")
        git("commit", "-q", "-m", "a change")
        return git("rev-parse", "HEAD")

    git("init", "-q")
    definitions = BUGS_FILE.relative_to(ROOT).as_posix()
    write(definitions, '[[bug]]\nname = "one"\n[[bug.change]]\nfile = "a.py"\nold = "1"\nnew = "2"\n')
    write("src/a.py", "1")
    write("src/b.py", "1")
    recorded = commit()
    write("src/a.py", "2")
    write(definitions, "")
    commit()
    write("src/b.py", "2")
    write("src/new.py", "1")
    then = Bug("one", (Change("a.py", "1", "2"),))
    changed = frozenset(["src/a.py", "src/b.py", "src/new.py", definitions])
    assert changes_since(recorded, tmp_path) == Changes(changed, {"one": then})
    assert changes_since("0" * 40, tmp_path) is None
    git("checkout", "-q", "--orphan", "rewritten")
    commit()
    assert changes_since(recorded, tmp_path) is None


def test_it_says_how_many_bugs_are_left_out_and_which():
    says = left_out(BUGS[:3], BUGS[1:2], "0123456789abcdef")
    assert says.splitlines()[0] == "1 of 3 planted bugs run; no change since 01234567 concerns the other 2:"
    assert says.split(":", 1)[1].split() == f"{BUGS[0].name}; {BUGS[2].name}".split()
    assert left_out(BUGS[:3], BUGS[:3], "") == "all 3 planted bugs run"
