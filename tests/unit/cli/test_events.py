"""The events between two views of a broker's metadata."""

from __future__ import annotations

import pytest

from moldau.cli.administration.events import changes
from moldau.cli.main import main


def test_a_line_for_each_thing_that_is_new_other_or_gone() -> None:
    before = {"broker 2": "serves a:1", "topic t": "has 1 partition", "t-0": "is led by 2, in sync 1, 2"}
    now = {"topic t": "has 1 partition", "t-0": "is led by 1, in sync 1", "topic u": "has 3 partitions"}
    assert list(changes(before, now)) == ["t-0 is led by 1, in sync 1", "topic u has 3 partitions", "broker 2 is gone"]


def test_a_broker_that_comes_or_goes_is_told_in_one_line() -> None:
    assert list(changes(None, {"topic t": "has 1 partition"})) == ["answers, and knows 1 topic"]
    assert list(changes({"topic t": "has 1 partition"}, None)) == ["does not answer"]


@pytest.mark.parametrize("words", [[], ["--follow"]])
def test_an_address_where_no_broker_answers_is_an_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", *words, "-b", "127.0.0.1:1"]) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err
