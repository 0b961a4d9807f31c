"""The list of the tools, and how they run: `moldau kafka-topics ...` bypasses argparse."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from moldau.cli.kafka.options import Arguments, Option
    from moldau.cli.kafka.subcommands import Command

PREFIX = "kafka-"

TOOLS = {
    "kafka-topics": "create, list, describe, alter and delete topics",
    "kafka-configs": "settings of topics, brokers and groups, and quotas",
    "kafka-acls": "list, add and remove access control lists",
    "kafka-delegation-tokens": "logins that end by themselves: create, renew, expire and describe tokens",
    "kafka-consumer-groups": "list, describe, delete and reset consumer groups",
    "kafka-console-producer": "write lines of standard input to a topic",
    "kafka-console-consumer": "print the records of topics",
    "kafka-get-offsets": "first and last offsets of partitions, offsets at a time",
    "kafka-delete-records": "delete the records before an offset",
    "kafka-log-dirs": "sizes of partitions in the log directories",
    "kafka-transactions": "list, describe and abort transactions, find those that hang",
    "kafka-features": "feature levels of the cluster, up and down",
    "kafka-storage": "format the directories of a node, and describe them",
    "kafka-metadata-quorum": "leader, voters and observers of the metadata quorum",
    "kafka-cluster": "the id of the cluster, its brokers, unregistering a broker",
    "kafka-leader-election": "have the preferred replicas lead",
    "kafka-reassign-partitions": "move replicas to other brokers and log directories",
    "kafka-broker-api-versions": "which versions of each request each broker serves",
    "kafka-dump-log": "print files of a log directory, and check indexes",
    "kafka-producer-perf-test": "how fast records can be written, and how late the answers come",
    "kafka-consumer-perf-test": "how fast records can be read",
}
"""The tools with their purposes, in the order of the help. A tool's module has its name without the prefix."""


EXAMPLES = {
    "kafka-topics": "--create --topic orders --partitions 3",
    "kafka-configs": "--alter --topic orders --add-config retention.ms=86400000",
    "kafka-acls": "--add --allow-principal User:ann --consumer --topic orders --group kitchen",
    "kafka-delegation-tokens": "--create --max-life-time-period -1 --command-config client.properties",
    "kafka-consumer-groups": "--describe --group kitchen",
    "kafka-console-producer": "--topic orders --reader-property parse.key=true",
    "kafka-console-consumer": "--topic orders --from-beginning",
    "kafka-get-offsets": "--topic orders --time latest",
    "kafka-delete-records": "--offset-json-file offsets.json",
    "kafka-log-dirs": "--describe --topic-list orders",
    "kafka-transactions": "find-hanging --topic orders",
    "kafka-features": "describe",
    "kafka-storage": "format --cluster-id tBkDQh1jQTWVvPkPqJ9o1w --config node.properties --standalone",
    "kafka-metadata-quorum": "describe --replication --human-readable",
    "kafka-cluster": "list-endpoints",
    "kafka-leader-election": "--election-type preferred --all-topic-partitions",
    "kafka-reassign-partitions": "--verify --reassignment-json-file moves.json",
    "kafka-broker-api-versions": "",
    "kafka-dump-log": "--print-data-log --files moldau-data/orders-0/00000000000000000000.log",
    "kafka-producer-perf-test": "--topic orders --num-records 100000 --record-size 100 --throughput -1",
    "kafka-consumer-perf-test": "--topic orders --num-records 100000",
}
"""The example in `--help`, after the tool's name and its broker."""

HELP_SUCCEEDS = ("kafka-features", "kafka-metadata-quorum", "kafka-storage")
"""Tools whose `--help` has exit code 0."""
NOTHING_SUCCEEDS = ("kafka-producer-perf-test",)
"""Tools that without arguments print their help on standard output, with exit code 0."""
WITHOUT_VERSION = (*HELP_SUCCEEDS, *NOTHING_SUCCEEDS, "kafka-cluster")
"""Tools that do not know `--version`."""
WITH_COMMANDS = (*WITHOUT_VERSION, "kafka-transactions")
"""Tools that read their flags as argparse does, and print the help for `--help` or `-h` on standard output. Their
modules have `COMMANDS`, the subcommands if any."""


class Tool(Protocol):
    """The interface of each tool's module."""

    OPTIONS: tuple[Option, ...]
    SUMMARY: str
    run: Callable[[Arguments], int]


def load(name: str) -> Tool:
    return cast("Tool", importlib.import_module(f"moldau.cli.kafka.{name.removeprefix(PREFIX).replace('-', '_')}"))


def run_tool(name: str, words: Sequence[str]) -> int:
    """Runs one tool; returns its exit code. Imports it only here: `moldau --help` needs only the list."""
    from moldau.cli.kafka.options import ArgumentError, UsageError, common_options, usage
    from moldau.errors import ProtocolError

    tool = load(name)
    common = common_options(has_commands=name in WITH_COMMANDS, has_version=name not in WITHOUT_VERSION)
    options = (*tool.OPTIONS, *common)
    try:
        return _run(tool, options, words)
    except UsageError as error:
        is_help = name in WITH_COMMANDS and any(_asks_for_help(word) for word in words)
        is_empty = name in NOTHING_SUCCEEDS and not words
        output = sys.stdout if is_help or is_empty else sys.stderr
        print(error, file=output)
        print(usage(options), file=output)
        if str(error) == tool.SUMMARY:
            asks_cluster = any(option.name == "bootstrap-server" for option in options)
            server = "--bootstrap-server 127.0.0.1:9092 " if asks_cluster else ""
            example = f"moldau {name} {server}{EXAMPLES[name]}".rstrip()
            print(f"\nexample:\n  {example}", file=output)
        return 0 if is_empty or (is_help and name in HELP_SUCCEEDS) else 1
    except (ArgumentError, ProtocolError) as error:
        if isinstance(error.__cause__, UnicodeEncodeError):
            raise error.__cause__ from error
        print(error, file=sys.stderr)
    return 1


def _asks_for_help(word: str) -> bool:
    """Whether the word asks for help: a tool with subcommands accepts the first letters of a flag."""
    return word == "-h" or (len(word) > len("--") and "--help".startswith(word))


def _run(tool: Tool, options: tuple[Option, ...], words: Sequence[str]) -> int:
    from moldau.cli.kafka.options import KAFKA_VERSION, UsageError, parse
    from moldau.cli.kafka.subcommands import spelt_out

    if not words:
        raise UsageError(tool.SUMMARY)
    commands: Mapping[str, Command] | None = getattr(tool, "COMMANDS", None)
    arguments = parse(options, words if commands is None else spelt_out(words, options, commands))
    if arguments.has("help"):
        raise UsageError(tool.SUMMARY)
    if arguments.has("version"):
        print(KAFKA_VERSION)
        return 0
    return tool.run(arguments)
