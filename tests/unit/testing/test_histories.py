"""Deliberately wrong histories are found, each with its kind of fault; good ones pass. They are stories in the files of
`histories`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.history_stories import NO_FINDING, Story, stories

FILES = sorted((Path(__file__).parent / "histories").glob("*.txt"))
ALL = [story for path in FILES for story in stories(path)]
WRONG = [story for story in ALL if story.finds != NO_FINDING]
GOOD = [story for story in ALL if story.finds == NO_FINDING]


@pytest.mark.parametrize("story", WRONG, ids=lambda story: story.title)
def test_a_wrong_history_gives_findings_of_its_kind_and_no_other(story: Story) -> None:
    verdict = story.judged()
    assert list(verdict.counts) == [story.finds], str(verdict)
    assert verdict.findings[0].proof, "a finding has steps that prove it"


@pytest.mark.parametrize("story", GOOD, ids=lambda story: story.title)
def test_a_good_history_passes(story: Story) -> None:
    verdict = story.judged()
    assert not verdict.findings, str(verdict)


def test_there_are_stories_enough() -> None:
    assert len(WRONG) >= 60
    assert len(GOOD) >= 20
    assert len({story.title for story in ALL}) == len(ALL)
