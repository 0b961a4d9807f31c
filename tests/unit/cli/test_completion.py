"""The words that completion offers: commands, then their flags and choices."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.cli.access import access_of
from moldau.cli.commands import build_parser
from moldau.cli.completion import SCRIPTS, candidates
from moldau.cli.main import main


def nobody(arguments: argparse.Namespace, kind: str) -> list[str]:
    raise AssertionError(f"{access_of(arguments)} was asked for each {kind}")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["top"], ["topics"]),
        (["kafka-consu"], ["kafka-consumer-groups", "kafka-consumer-perf-test"]),
        (["topics", "d"], ["delete", "describe"]),
        (["topics", "delete", "--r"], ["--regex"]),
        (["produce", "t", "--compression", "z"], ["zstd"]),
        (["configs", "describe", "b"], ["broker"]),
        (["kafka-topics", "--if-"], ["--if-exists", "--if-not-exists"]),
        (["topics", "list", ""], []),
        (["produce", "t", "--compression=z"], ["--compression=zstd"]),
        (["topics", "list", "--json="], []),
        (["kafka-topics", "--if-exists=t"], []),
        (["completion", ""], ["bash", "fish", "zsh"]),
    ],
)
def test_the_last_word_is_completed(words: list[str], offered: list[str]) -> None:
    assert candidates(build_parser(), words, nobody) == offered


@pytest.mark.parametrize(
    ("words", "asked", "offered"),
    [
        (["consume", "o"], ("127.0.0.1:9092", "topic"), ["orders"]),
        (["produce", "-b", "h:1", "o"], ("h:1", "topic"), ["orders"]),
        (["topics", "delete", "orders", ""], ("127.0.0.1:9092", "topic"), ["orders", "payments"]),
        (["consume", "orders", "--bootstrap-server=h:1", "--group", "o"], ("h:1", "group"), ["orders"]),
        (["offsets", "reset", "g", "--topic", "p"], ("127.0.0.1:9092", "topic"), ["payments"]),
        (["configs", "describe", "topic", "p"], ("127.0.0.1:9092", "topic"), ["payments"]),
        (["kafka-topics", "--bootstrap-server", "h:1", "--topic", "p"], ("h:1", "topic"), ["payments"]),
        (["kafka-consumer-groups", "--group", "p"], ("127.0.0.1:9092", "group"), ["payments"]),
        (["consume", "-b", "h:1", "--group=p"], ("h:1", "group"), ["--group=payments"]),
        (["kafka-topics", "--topic=o"], ("127.0.0.1:9092", "topic"), ["--topic=orders"]),
    ],
)
def test_topics_and_groups_come_from_the_broker_that_the_line_names(
    words: list[str], asked: tuple[str, str], offered: list[str]
) -> None:
    questions: list[tuple[str, str]] = []

    def ask(arguments: argparse.Namespace, kind: str) -> list[str]:
        questions.append((str(access_of(arguments)), kind))
        return ["payments", "orders"]

    assert candidates(build_parser(), words, ask) == offered
    assert questions == [asked]


def test_an_empty_word_offers_every_command() -> None:
    offered = candidates(build_parser(), [""], nobody)
    assert {"up", "topics", "log", "completion", "kafka-topics"} <= set(offered)


@pytest.mark.parametrize("address", ["", "http://x", "127.0.0.1:1", "nohost.invalid:1"])
def test_a_broker_that_does_not_answer_is_no_error(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "words", "--", "consume", "-b", address, ""]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["consume", "-b", "h", ":", "1", "or"], "consume|-b|h:1|or"),
        (["consume", "--bootstrap-server", "=", "h", ":", "1", "or"], "consume|--bootstrap-server=h:1|or"),
        (["topics", ""], "topics|"),
    ],
)
def test_bash_puts_an_address_together_again(typed: list[str], words: str) -> None:
    given = " ".join(f"'{word}'" for word in ["moldau", *typed])
    script = f"""
moldau() {{ shift 3; local IFS='|'; echo "$*" >&9; }}
{SCRIPTS["bash"]}
COMP_WORDS=({given}); COMP_CWORD={len(typed)}; exec 9>&1; _moldau
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr) == (words + "\n", "")


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
@pytest.mark.parametrize(
    ("breaks", "typed", "reply"),
    [
        (" =:", ["consume", "--group", "=", "o"], "orders|others"),
        (" =:", ["consume", "--group", "="], "orders|others"),
        (" ", ["consume", "--group=o"], "--group=orders|--group=others"),
    ],
)
def test_bash_is_given_what_it_replaces(breaks: str, typed: list[str], reply: str) -> None:
    given = " ".join(f"'{word}'" for word in ["moldau", *typed])
    script = f"""
moldau() {{ printf -- '--group=orders\\n--group=others\\n'; }}
{SCRIPTS["bash"]}
COMP_WORDBREAKS='{breaks}'; COMP_WORDS=({given}); COMP_CWORD={len(typed)}; _moldau
IFS='|'; echo "${{COMPREPLY[*]}}"
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr) == (reply + "\n", "")


@pytest.mark.parametrize("shell", [shell for shell in SCRIPTS if shutil.which(shell)])
def test_the_script_is_one_that_the_shell_can_read(shell: str) -> None:
    done = subprocess.run([shell, "-n"], input=SCRIPTS[shell], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")


COMPLETE_TOPICS_CR = {
    "bash": 'eval "$(moldau completion bash)"; COMP_WORDS=(moldau topics cr); COMP_CWORD=2; _moldau; echo $COMPREPLY',
    # outside of its line editor zsh has no compadd: the test's own prints the offered words
    "zsh": 'eval "$(moldau completion zsh)"; compadd() { print -r -- ${(P)2} }; '
    "words=(moldau topics cr); CURRENT=3; ${_comps[moldau]}",
    "fish": "moldau completion fish | source; complete -C 'moldau topics cr'",
}


@pytest.mark.parametrize("shell", [shell for shell in SCRIPTS if shutil.which(shell)])
def test_a_shell_without_settings_of_its_own_completes_a_word(shell: str, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [shell, *(["-f"] if shell == "zsh" else []), "-c", COMPLETE_TOPICS_CR[shell]],
        env={"PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("create\n", "")


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
