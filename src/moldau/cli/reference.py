"""Writes the reference page of all commands. A test compares it with the commands.

python -m moldau.cli.reference > docs/reference/command-line.md
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from moldau.cli.kafka.tools import TOOLS, load

INTRODUCTION = """# The command line

Generated: `python -m moldau.cli.reference > docs/reference/command-line.md`.

`moldau COMMAND --help` explains each flag and ends with examples. Every command that talks to a cluster takes
`--bootstrap-server HOST:PORT` (`-b`), a broker of Moldau or of Apache Kafka; without it, the profile counts, then the
environment's `MOLDAU_BOOTSTRAP_SERVER`, then 127.0.0.1:9092. Each takes `--profile NAME` or `--command-config FILE`,
too, which say how the cluster is secured ([profiles](../use/profiles.md)). Most take `--json` (`--format json`).
Flags stand anywhere between the words; words after `--` are no flags. A FILE of `-`, and a
VALUE of `-` alone, is standard input. `python -m moldau` is the same command.

An error that a user can cause is one sentence on standard error and exit code 1. A misspelt command or flag gets a
hint, the usage of that command, and exit code 2. `moldau pipeline` exits with 2 if a pipeline file
is invalid, and with 1 if a run or a test fails.

A time is a date (`2026-01-31`), a date with a time (`2026-01-31T12:00:00`, in UTC unless it names a zone), or a
duration before now. A duration is a number and a unit: `90s`, `15m`, `1h30m`, `2d`, `1w`, or ISO 8601's `PT1H30M`.

`moldau consume --json` prints each record as one line of JSON, and `moldau produce --json` reads such lines back: key,
value, headers, timestamp and partition, byte for byte ([decision 0022](../decisions/0022-records-as-json.md)).
`moldau produce` writes every line that was read, also after Ctrl-C or SIGTERM, and prints how many records were
written, with their offsets. `consume` and `console` decode Avro, Protobuf and JSON Schema by the schema registry that
`--registry`, or the environment's `MOLDAU_REGISTRY`, names; such lines of JSON are for people and for `jq`, and
`produce` rejects them.

`--key-format` and `--value-format` of both commands name Kafka's serializers: `string` (UTF-8), `integer` (4 bytes),
`long` (8 bytes), `double` (8 bytes, IEEE 754), `uuid` (its text), `bytes` and `json`. The text of `bytes` is base64.
In a line of JSON, numbers are numbers and `json` is any JSON value, so its white space is not kept. Without a format,
text is written and printed as it is. `produce` ends at the first text that is not of its format, names its line, and
writes the records before it.

`eval "$(moldau completion bash)"` completes commands, flags, topics and groups in bash; zsh and fish have scripts of
their own. Topics and groups come from the broker that the line names with `-b`, else as above; the broker
has half a second to answer.

## Commands

| Command | What it does | Its own flags |
|---|---|---|
"""

TOOLS_INTRODUCTION = """
## Kafka's own tools

`moldau kafka-topics` and the other tools take the flags of Apache Kafka 4.4's tools (the older spellings too, as Kafka
does), print what they print and exit as they do: `--help` exits 1 (but 0 of
`kafka-features`, `kafka-metadata-quorum` and `kafka-storage`), as does a call without flags, and
`kafka-consumer-groups` exits 0 after an error. They are plain clients and work with Apache Kafka too.
`tests/conformance/kafka_tools` compares them with Kafka's own tools, line by line.

What differs: the texts of `--help`; a Java trace on standard error is one sentence here; listings are sorted where
Kafka's come out of a hash map; an absent broker is reported at once, where Kafka tries for a minute (the
console tools report it and try again until Ctrl-C).

TLS and SASL (PLAIN, SCRAM, OAUTHBEARER) are set in the file of `--command-config`, as for Kafka's tools; a JKS store is
rejected with the command that converts it, and passwords may be references (`${env:NAME}`) without `config.providers`.

What is missing: SASL GSSAPI, groups of the new protocol (KIP-848) in
`kafka-consumer-groups --describe`, formatters of share groups and of one's own, line readers other than Kafka's own.

| Tool | What it does | Flags |
|---|---|---|
"""

SHARED = ("--bootstrap-server", "--profile", "--command-config", "--json", "--format", "--help")


def page() -> str:
    """The Markdown of docs/reference/command-line.md."""
    from moldau.cli.commands import build_parser

    lines = [
        f"| `{name}` | {_cell(text)} | {_flags(parser)} |" for name, text, parser in _commands("moldau", build_parser())
    ]
    tools = [
        f"| `moldau {name}` | {text} | {' '.join(f'`--{option.name}`' for option in load(name).OPTIONS)} |"
        for name, text in TOOLS.items()
    ]
    return INTRODUCTION + "\n".join(lines) + "\n" + TOOLS_INTRODUCTION + "\n".join(tools) + "\n"


def _commands(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """(name, help, parser) of each command that has no commands below it."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        helps = {str(choice.dest): choice.help or "" for choice in action._choices_actions}
        for word, inner in action.choices.items():
            below = list(_commands(f"{name} {word}", inner))
            if below:
                yield from below
            else:
                yield f"{name} {word}", helps.get(word, ""), inner


def _flags(parser: argparse.ArgumentParser) -> str:
    words: list[str] = []
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        names = [name for name in action.option_strings if name.startswith("--")] or action.option_strings
        if not names:
            words.append(f"`{str(action.metavar or action.dest).upper()}`")
        elif names[0] not in SHARED:
            words.append(f"`{names[0]}`")
    return " ".join(words)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
