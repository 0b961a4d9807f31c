"""The shell of SQL on a terminal: statements of several lines, completion, live rows, Ctrl-C, errors, history."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.terminal import CTRL_C, CTRL_D, TAB, UP, Terminal

PROMPT = "moldau>"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Terminal]:
    command = [sys.executable, "-m", "tests.support.sql_service", str(tmp_path / "history")]
    with Terminal(command, {}) as terminal:
        terminal.wait_for(PROMPT)
        yield terminal


def answer(shell: Terminal, typed: str, expected: str) -> str:
    """What is shown up to `expected`. A key before the next prompt would not be the shell's, so it waits for that."""
    shell.type(typed)
    shown = shell.wait_for(expected)
    shell.wait_for(PROMPT)
    return shown


def test_a_statement_has_several_lines_and_names_are_completed(shell: Terminal, tmp_path: Path):
    statement = "CREATE STREAM clicks\n(user STRING KEY, n BIGINT) WITH (kafka_topic = 'c');\n"
    answer(shell, statement, "stream clicks is created")
    shell.type(f"SHOW ST{TAB}")
    shell.wait_for("REAMS")
    assert "JSON" in answer(shell, ";\n", "a topic")
    shell.type(f"select * from cli{TAB}")
    shell.wait_for("cks")
    shell.type(" emit changes;\n")
    shell.wait_for("ann   2")
    answer(shell, CTRL_C, "2 rows")
    shell.type(UP)
    shell.wait_for("changes")
    answer(shell, CTRL_C, "changes")
    answer(shell, "SHOW TABLES;\n", "no tables")
    shell.type(CTRL_D)
    assert shell.exit_code() == 0
    history = (tmp_path / "history").read_text()
    assert "+CREATE STREAM clicks\n+(user STRING KEY, n BIGINT) WITH (kafka_topic = 'c');" in history
    assert (tmp_path / "history").stat().st_mode & 0o777 == 0o600


def test_a_table_updates_in_place_until_ctrl_c(shell: Terminal):
    statement = "CREATE TABLE t (user STRING PRIMARY KEY, n BIGINT) WITH (kafka_topic = 't', partitions = 1);\n"
    answer(shell, statement, "table t is created")
    shell.type("SELECT * FROM t EMIT CHANGES;\n")
    shell.wait_for("2 changes")
    answer(shell, CTRL_C, "2 changes")
    last = shell.output[shell.output.rindex("\x1b[1A") :]
    assert "ann" in last, "the same place was drawn again"
    shell.type("exit\n")
    assert shell.exit_code() == 0


def test_an_error_points_at_its_place_and_the_shell_goes_on(shell: Terminal):
    shown = answer(shell, "SHOW STREAMS; DROP STREAM nothing;\n", "there is no stream, table or view nothing")
    assert "no streams" in shown, "the statement before it has run"
    answer(shell, "SHOW STREMS;\n", "     ^")
    answer(shell, "SHOW TOPICS;\n", "no broker answers")
    answer(shell, "help\n", "Tab completes")
    answer(shell, "SHOW PROPERTIES;\n", "sql.dialect")
    shell.type("quit;\n")
    assert shell.exit_code() == 0
