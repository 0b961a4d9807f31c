"""The parser's arguments, its message for a misspelt word, and a working example at the end of every help text."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest

from moldau.cli.access import access_of
from moldau.cli.commands import build_parser
from moldau.cli.kafka.options import common_options, parse
from moldau.cli.kafka.tools import HELP_SUCCEEDS, TOOLS, load
from moldau.cli.main import main
from moldau.cli.parser import CommandParser, commands_of


def commands(parser: argparse.ArgumentParser) -> Iterator[CommandParser]:
    assert isinstance(parser, CommandParser)
    below = commands_of(parser)
    if not below:
        yield parser
    for inner in below.values():
        yield from commands(inner)


@pytest.mark.parametrize("command", list(commands(build_parser())), ids=lambda command: command.prog)
def test_every_help_ends_with_examples_that_are_understood(command: CommandParser) -> None:
    assert command.examples, f"{command.prog} has no example"
    assert "\nexamples:\n  " in command.format_help()
    for example in command.examples:
        calls = [part.strip() for part in shlex.split(example, comments=True) and example.split("#")[0].split("|")]
        for call in calls:
            words = shlex.split(call.split(" > ")[0])
            if words[0] == "moldau":
                build_parser().parse_args(words[1:])


@pytest.mark.parametrize(
    "words",
    [
        ["produce", "T", "--key", "k", "v1", "v2"],
        ["produce", "--key", "k", "T", "v1", "v2"],
        ["produce", "T", "v1", "--key=k", "v2"],
        ["produce", "T", "v1", "--key", "k", "-b", "h:1", "--comp", "lz4", "v2"],
        ["produce", "-bh:1", "T", "--key", "k", "--", "v1", "v2"],
    ],
)
def test_flags_stand_anywhere_between_words(words: list[str]) -> None:
    found = build_parser().parse_args(words)
    assert (found.topic, found.value, found.key) == ("T", ["v1", "v2"], "k")


def test_a_value_may_begin_with_a_dash() -> None:
    found = build_parser().parse_args(["produce", "T", "--key", "-k", "-5", "--", "-v", "--key"])
    assert (found.key, found.value) == ("-k", ["-5", "-v", "--key"])
    assert build_parser().parse_args(["offsets", "reset", "g", "--shift-by", "-2"]).shift_by == -2


@pytest.mark.parametrize(
    ("words", "sentence", "usage"),
    [
        (["topik"], "there is no command 'topik'; did you mean topics?", "usage: moldau "),
        (["kafka-topic"], "there is no command 'kafka-topic'; did you mean kafka-topics?", "usage: moldau "),
        (["topics", "lst"], "topics has no command 'lst'; did you mean list?", "usage: moldau topics "),
        (["produce", "T", "--kye", "k"], "unknown flag --kye; did you mean --key?", "usage: moldau produce "),
        (["produce", "T", "v", "--xyz=1"], "unknown flag --xyz", "usage: moldau produce "),
        (["groups", "describe", "g", "h"], "there is no place for 'h'", "usage: moldau groups describe "),
        (["produce", "T", "--key"], "--key needs a value", "usage: moldau produce "),
        (["produce", "T", "--key", "--json"], "--key needs a value", "usage: moldau produce "),
        (["produce"], "missing: TOPIC", "usage: moldau produce "),
        (["configs", "describe"], "missing: KIND, NAME", "usage: moldau configs describe "),
        (["brokers", "decommission"], "missing: BROKER", "usage: moldau brokers decommission "),
        (["offsets", "delete"], "missing: GROUP, --topic", "usage: moldau offsets delete "),
        (["up", "--listen", ""], "it is empty", "usage: moldau up "),
        (["up", "--data-dir", ""], "it is empty", "usage: moldau up "),
        (["configs", "describe", "topics", "t"], "did you mean topic?", "usage: moldau configs describe "),
        (["offsets", "reset", "g"], "one of these flags is needed: --to-earliest", "usage: moldau offsets reset "),
    ],
)
def test_a_misspelt_word_gets_a_hint_and_the_usage_of_its_command(
    words: list[str], sentence: str, usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    first, _, rest = capsys.readouterr().err.partition("\n")
    assert first.startswith("moldau: ")
    assert sentence in first
    assert usage in rest


def test_a_word_that_no_help_shows_is_not_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion"])
    assert capsys.readouterr().err.startswith("moldau: missing: SHELL\n")


@pytest.mark.parametrize("words", [[], ["topics"]])
def test_a_command_that_needs_another_word_prints_its_help(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert ("topics and records:" if not words else "describe") in capsys.readouterr().err


@pytest.mark.parametrize("name", TOOLS)
def test_the_help_of_kafkas_tools_ends_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == (0 if name in HELP_SUCCEEDS else 1)
    written = capsys.readouterr()
    example = (written.err or written.out).splitlines()[-1].split()
    assert example[:2] == ["moldau", name]
    parse((*load(name).OPTIONS, *common_options()), example[2:])


@pytest.mark.parametrize("word", ["--help", "--hel", "-h"])
def test_a_tool_with_commands_prints_its_help_on_standard_output_however_it_is_asked(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kafka-features", word]) == 0
    told = capsys.readouterr()
    assert told.out.startswith(load("kafka-features").SUMMARY)
    assert told.err == ""


def test_the_help_of_a_noun_shows_its_verbs_in_use() -> None:
    topics = commands_of(build_parser())["topics"].format_help()
    assert "\nexamples:\n  moldau topics create orders --partitions 3\n  moldau topics list\n" in topics


def test_the_help_lists_kafkas_own_tools() -> None:
    text = build_parser().format_help()
    assert all(re.search(rf"^  {name}\s", text, re.MULTILINE) for name in TOOLS)


def test_ctrl_c_while_the_commands_are_imported_shows_no_traceback() -> None:
    program = """
import sys

class CtrlC:
    def find_spec(self, name, path, target=None):
        if name == "moldau.cli.commands":
            raise KeyboardInterrupt

sys.meta_path.insert(0, CtrlC())
from moldau.cli.main import main
sys.exit(main(["topics", "list"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.parametrize("words", [["topics", "list"], ["produce", "t"], ["console"], ["registry"]])
def test_the_environment_names_the_broker_where_no_flag_does(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOLDAU_BOOTSTRAP_SERVER", raising=False)
    assert str(access_of(build_parser().parse_args(words))) == "127.0.0.1:9092"
    monkeypatch.setenv("MOLDAU_BOOTSTRAP_SERVER", "kafka.example.org:9092")
    assert str(access_of(build_parser().parse_args(words))) == "kafka.example.org:9092"
    assert str(access_of(build_parser().parse_args([*words, "-b", "other:1"]))) == "other:1"
