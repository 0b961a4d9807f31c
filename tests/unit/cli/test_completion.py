"""What completion offers: commands, then their flags and choices."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from moldau.cli.completion import SCRIPTS, candidates
from moldau.cli.main import build_parser, main


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["top"], ["topics"]),
        (["kafka-c"], ["kafka-configs", "kafka-console-consumer", "kafka-console-producer", "kafka-consumer-groups"]),
        (["topics", "d"], ["delete", "describe"]),
        (["topics", "delete", "--r"], ["--regex"]),
        (["produce", "t", "--compression", "z"], ["zstd"]),
        (["configs", "describe", "b"], ["broker"]),
        (["kafka-topics", "--if-"], ["--if-exists", "--if-not-exists"]),
        (["topics", "list", ""], []),
    ],
)
def test_the_last_word_is_completed(words: list[str], offered: list[str]) -> None:
    assert candidates(build_parser(), words) == offered


def test_an_empty_word_offers_every_command() -> None:
    offered = candidates(build_parser(), [""])
    assert {"up", "topics", "log", "completion", "kafka-topics"} <= set(offered)


@pytest.mark.parametrize("shell", [shell for shell in SCRIPTS if shutil.which(shell)])
def test_the_script_is_one_that_the_shell_can_read(shell: str) -> None:
    done = subprocess.run([shell, "-n"], input=SCRIPTS[shell], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "candidate"),
    [
        (["up", "--"], "--listen"),
        (["topics", "create", "--"], "--partitions"),
        (["topics", ""], "create"),
        ([""], "up"),
    ],
)
def test_what_the_shells_scripts_ask_is_understood(
    words: list[str], candidate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "words", "--", *words]) == 0
    assert candidate in capsys.readouterr().out.split()
