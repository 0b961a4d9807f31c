"""The simulator finds bugs: each is planted into a copy of the package and must break a rule in the seed of its own.

The bugs stand in planted_bugs.toml, their seeds in planted_seeds.json (`make planted` searches for new ones). A change
of the package may move a bug to another seed: where the recorded one finds it no more, one of the first few must. What
no seed can find a test must.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.simulation.planting import PACKAGE, Bug, all_bugs, found_in, page, plant, recorded_seeds, run_test, simulate

BUGS = all_bugs()
FIRST_SEEDS = "1..40"


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
    written = Path("docs/reference/planted-bugs.md").read_text()
    assert written == page(), "run: python -m tests.simulation.planting --page > docs/reference/planted-bugs.md"


@pytest.mark.slow
@pytest.mark.parametrize("bug", [bug for bug in BUGS if not bug.unfound], ids=named)
def test_a_planted_bug_is_found(bug, tmp_path):
    recorded = recorded_seeds()[bug.name]
    package = plant(bug, tmp_path)
    for seeds in (f"{recorded.seed}..{recorded.seed}", FIRST_SEEDS):
        result = simulate(package, seeds, bug)
        found = found_in(result.stdout)
        if found is not None:
            assert not bug.rules or found.rule in bug.rules, result.stdout[-2_000:]
            return
    raise AssertionError(f"{named(bug)} is found by none: run `make planted`\n{result.stdout}{result.stderr[-2_000:]}")


@pytest.mark.slow
@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.test], ids=named)
def test_a_planted_bug_that_no_seed_finds_is_found_by_its_test(bug, tmp_path):
    result = run_test(plant(bug, tmp_path), bug)
    assert result.returncode == pytest.ExitCode.TESTS_FAILED, result.stdout[-2_000:] + result.stderr[-2_000:]
