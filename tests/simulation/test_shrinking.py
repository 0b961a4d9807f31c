"""A broken seed is reported with the fewest faults that break it."""

from __future__ import annotations

import pytest

from moldau.simulation.cluster.shrink import Scenario, main, shrunk

KINDS = ("kill", "pause", "slow disk")
ALL = tuple((kind, number) for number in range(1, 8) for kind in KINDS)


@pytest.mark.parametrize("needed", [(), (("pause", 3),), (("kill", 1), ("pause", 5), ("pause", 6)), ALL])
def test_only_acts_without_which_nothing_breaks_are_left(needed):
    small = shrunk(Scenario(1, 60.0, ALL), lambda scenario: set(needed) <= set(scenario.acts))
    assert set(small.acts) == set(needed)
    assert small.seconds < 10


def test_acts_of_which_either_will_do_leave_one():
    small = shrunk(Scenario(1, 60.0, ALL), lambda scenario: any(kind == "kill" for kind, _ in scenario.acts))
    assert len(small.acts) == 1


@pytest.mark.slow
def test_a_story_that_is_written_down_plays_again(tmp_path, capsys):
    story, outcome = Scenario(3, 8.0).story()
    told = Scenario.parse(story)
    assert told.acts
    assert told.play().digest == outcome.digest
    fewer = Scenario(3, 8.0, told.acts[:1])
    path = tmp_path / "story.txt"
    path.write_text(fewer.story()[0])
    assert main(["--again", str(path)]) == 1
    assert Scenario.parse(capsys.readouterr().out) == fewer


@pytest.mark.slow
def test_a_seed_that_breaks_nothing_has_no_story(capsys):
    assert main(["--seed", "1"]) == 1
    assert capsys.readouterr().out == "seed 1 breaks no rule\n"
