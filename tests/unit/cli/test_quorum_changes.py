"""A change of voters is retried while the leader cannot make it, until a time limit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.cli.administration.quorum import CHANGE_PATIENCE_S, CHANGE_PAUSE_S, change_voters
from moldau.cli.main import main
from moldau.errors import KafkaError, kafka_error


class Leader:
    """Answers with these errors in turn, then without one. `asked`: the number of requests."""

    def __init__(self, *names: str) -> None:
        self.asked = 0
        self._names = list(names)

    def ask(self) -> None:
        self.asked += 1
        if self._names:
            raise kafka_error(self._names.pop(0))


def change(leader: Leader, is_done: Callable[[], bool] = lambda: False) -> list[float]:
    """Gives the pauses; no other time passes."""
    pauses: list[float] = []
    change_voters(leader.ask, is_done, lambda: sum(pauses), pauses.append)
    return pauses


def test_it_is_asked_again_of_a_leader_that_was_just_elected() -> None:
    leader = Leader("REQUEST_TIMED_OUT", "REQUEST_TIMED_OUT")
    assert (len(change(leader)), leader.asked) == (2, 3)


def test_it_is_not_asked_again_where_it_came_to_pass_without_an_answer() -> None:
    leader = Leader("REQUEST_TIMED_OUT", "VOTER_NOT_FOUND")
    change(leader, is_done=lambda: True)
    assert leader.asked == 1


@pytest.mark.parametrize(
    ("name", "most"), [("VOTER_NOT_FOUND", 1), ("REQUEST_TIMED_OUT", 2 + CHANGE_PATIENCE_S / CHANGE_PAUSE_S)]
)
def test_what_waiting_does_not_cure_is_told(name: str, most: float) -> None:
    leader = Leader(*[name] * 1_000)
    with pytest.raises(KafkaError):
        change(leader)
    assert 1 <= leader.asked <= most


def test_a_node_without_log_directories_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "node.properties"
    listeners = "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n"
    config.write_text(f"process.roles=broker,controller\nnode.id=1\n{listeners}")
    assert main(["quorum", "recover", str(config)]) == 1
    assert capsys.readouterr().err == f"moldau: {config} names no log.dirs\n"


def test_a_file_that_is_no_text_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "node.properties"
    config.write_bytes(b"\xff\xfe")
    assert main(["quorum", "recover", str(config)]) == 1
    assert capsys.readouterr().err == f"moldau: {config} is not UTF-8\n"
