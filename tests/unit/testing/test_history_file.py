"""The file of a history: appends of several processes stay whole, even if any of them is killed."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from moldau.testing.history import HistoryError, HistoryFile, events
from moldau.testing.history.file import Appender
from tests.support.talking_process import line_of

WRITER = """
import sys
from moldau.testing.history import events
from moldau.testing.history.file import Appender
appender = Appender(sys.argv[1])
number = 0
while True:
    number += 1
    appender.append(events.Send(process=sys.argv[2], operation=number, topic="orders", record="r" * (number % 200)))
    if number == 2000:
        print("written", flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.jsonl"


def test_the_lines_of_processes_that_are_killed_do_not_mix(path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], stdout=subprocess.PIPE) for name in ("a", "b")
    ]
    for writer in writers:
        assert line_of(writer.stdout) == b"written\n"
    for writer in writers:
        writer.kill()
        writer.wait(30)
        assert writer.stdout is not None
        writer.stdout.close()
    expected: Counter[str] = Counter()
    for event in HistoryFile(path):
        expected[event.process] += 1
        assert isinstance(event, events.Send)
        assert event.operation == expected[event.process]
    assert min(expected.values()) >= 2000


def test_a_line_that_was_torn_is_passed_over(path: Path) -> None:
    appender = Appender(path)
    appender.append(events.Fault(process="operator", text="kill -9"))
    appender.close()
    with path.open("ab") as file:
        file.write(b'{"event":"poll","proc')
    assert [event.process for event in HistoryFile(path)] == ["operator"]


def test_a_line_behind_a_torn_one_counts(path: Path) -> None:
    torn = b'{"event":"send","process":"p","opera'
    path.write_bytes(torn + torn + b'{"event":"fault","process":"operator","text":"kill -9"}\n')
    assert list(HistoryFile(path)) == [events.Fault(process="operator", text="kill -9")]


def test_a_line_that_belongs_to_no_history_is_named(path: Path) -> None:
    path.write_text('{"event":"crash","process":"p"}\n{"event":"dance","process":"p"}\n')
    with pytest.raises(HistoryError, match=r"history.jsonl:2: .*dance"):
        list(HistoryFile(path))
