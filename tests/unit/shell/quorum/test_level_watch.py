"""A finalized feature that this node does not serve: logged at once, once, and no reason for a member to leave."""

from __future__ import annotations

import logging

import pytest

from moldau.shell.io.simulated.clock import ManualClock
from moldau.shell.network.event_log import EventLog
from moldau.shell.quorum.level_watch import LevelWatch

LEVELS = {"metadata.version": 30, "group.version": 1}
APACHE = 3


class Watched:
    """A watch, and its log lines."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.ERROR)
        self.others: tuple[str, ...] = ()
        self.clock = ManualClock()
        self.watch = LevelWatch(EventLog(self.clock), lambda: self.others)
        self._caplog = caplog

    def said(self) -> list[str]:
        self.clock.advance(10_000)
        texts = [record.getMessage() for record in self._caplog.records]
        self._caplog.clear()
        return [text.partition(" is ")[0] for text in texts]


def test_a_node_of_another_make_that_registers_is_said_at_once_and_once(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog)
    watched.watch.registered(2, LEVELS, is_ours=True)
    assert watched.said() == []
    watched.watch.registered(APACHE, LEVELS, is_ours=False)
    watched.watch.look(LEVELS)
    assert watched.said() == ["group.version"]


def test_a_level_written_later_is_reported_at_once_and_again_after_its_removal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched(caplog)
    without = {**LEVELS, "group.version": 0}
    watched.watch.registered(APACHE, without, is_ours=False)
    assert watched.said() == []
    for _ in range(2):
        watched.watch.look(LEVELS)
        assert watched.said() == ["group.version"]
        watched.watch.look(without)
        assert watched.said() == []


def test_a_peer_that_serves_the_feature_is_enough(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog)
    watched.watch.look(LEVELS)
    watched.others = ("group.version",)
    watched.watch.look(LEVELS)
    assert watched.said() == ["group.version"]


def test_another_controller_is_asked_after_the_lead_has_gone(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog)
    watched.watch.registered(APACHE, {}, is_ours=False)
    watched.watch.forget()
    watched.watch.look(LEVELS)
    assert watched.said() == []


def test_a_level_that_is_not_known_here_is_said_by_the_running_node(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog)
    watched.watch.look({"metadata.version": 99})
    assert watched.said() == ["metadata.version"]
