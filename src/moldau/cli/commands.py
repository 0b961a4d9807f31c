"""The tree of commands, one module for each noun, and the help of `moldau`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from moldau import __version__
from moldau.cli import completion
from moldau.cli.administration import (
    acls,
    brokers,
    configs,
    events,
    groups,
    offsets,
    partitions,
    quorum,
    quotas,
    tokens,
    topics,
    transactions,
)
from moldau.cli.connect import connect
from moldau.cli.diagnosis import doctor
from moldau.cli.kafka.tools import TOOLS
from moldau.cli.nodes import certs, log, node, storage, up
from moldau.cli.parser import CommandParser
from moldau.cli.pipelines import demo, pipeline
from moldau.cli.records import consume, produce
from moldau.cli.services import console, machine, registry
from moldau.cli.sql import sql

MODULES = (
    up,
    demo,
    topics,
    produce,
    consume,
    groups,
    offsets,
    console,
    pipeline,
    sql,
    connect,
    registry,
    node,
    storage,
    brokers,
    partitions,
    quorum,
    events,
    configs,
    quotas,
    acls,
    tokens,
    certs,
    machine,
    transactions,
    doctor,
    log,
    completion,
)
"""One module for each noun, in the order of the help."""

COMMAND_GROUPS = (
    ("start here", ("up", "demo")),
    ("topics and records", ("topics", "produce", "consume")),
    ("who reads what", ("groups", "offsets", "console")),
    ("pipelines on Spark", ("pipeline", "sql")),
    ("other systems", ("connect",)),
    ("schemas", ("registry",)),
    ("a cluster of several", ("node", "storage", "brokers", "partitions", "quorum", "events")),
    ("operating a cluster", ("configs", "quotas", "acls", "tokens", "certs", "machine", "transactions", "doctor")),
    ("files and shells", ("log", "completion")),
)
EXAMPLES = (
    "moldau up                                    # a broker on 127.0.0.1:9092, until Ctrl-C",
    "moldau produce greetings hello               # in a second terminal: write a record",
    "moldau consume greetings --from beginning    # read all records, then wait for new ones",
)
_NAME_WIDTH = 27


class MainParser(CommandParser):
    """The parser of `moldau` itself: its help lists the commands in groups."""

    def words_beside(self) -> Iterable[str]:
        return TOOLS

    def format_help(self) -> str:
        lines = ["usage: moldau COMMAND ...", "", str(self.description), ""]
        actions = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        helps = {str(choice.dest): choice.help or "" for action in actions for choice in action._choices_actions}
        for title, names in COMMAND_GROUPS:
            lines.append(f"{title}:")
            lines += [f"  {name:<{_NAME_WIDTH}}{helps.pop(name)}" for name in names if name in helps]
            lines.append("")
        if helps:
            lines.append("more:")
            lines += [f"  {name:<{_NAME_WIDTH}}{text}" for name, text in helps.items()]
            lines.append("")
        lines.append("Kafka's own tools, with their flags and columns:")
        lines += [f"  {name:<{_NAME_WIDTH}}{text}" for name, text in TOOLS.items()]
        lines += ["", "examples:", *(f"  {line}" for line in self.examples)]
        lines += ["", "`moldau COMMAND --help` explains a command; `moldau --version` prints the version."]
        return "\n".join(lines) + "\n"


def build_parser() -> argparse.ArgumentParser:
    """The whole command tree. Imports nothing heavy: `moldau --help` answers within 200 ms."""
    parser = MainParser(
        prog="moldau",
        description="Event streaming that speaks the Apache Kafka protocol, with pipelines on Spark.",
        examples=EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"moldau {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=CommandParser)
    for module in MODULES:
        module.add_parser(subparsers)
    parser.set_defaults(command_tree=parser)  # for `completion`, which walks the whole tree
    return parser
