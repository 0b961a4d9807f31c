"""Tools with subcommands, as argparse4j reads them: each subcommand has its own flags and those of the connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from moldau.cli.kafka.options import ArgumentError, Arguments, Option, UsageError, check_required
from moldau.client.admin.client import ClusterAdmin


def bootstrap_controller(short: str = "") -> Option:
    return Option("bootstrap-controller", "The controllers to connect to.", "server to connect to", short=short)


BOOTSTRAP_CONTROLLER = bootstrap_controller()
_CONNECTION = ("bootstrap-server", "bootstrap-controller", "command-config")


class Command(msgspec.Struct, frozen=True):
    """A subcommand, with its required and optional flags."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


class ClusterCommand(Command, frozen=True, kw_only=True):
    """A command of a cluster: `run` prints, or raises KafkaError or ArgumentError."""

    run: Callable[[Arguments, ClusterAdmin], None]


class OfflineCommand(Command, frozen=True, kw_only=True):
    """A command that asks no cluster; otherwise as ClusterCommand."""

    run: Callable[[Arguments], None]


def spelt_out(words: Sequence[str], options: Sequence[Option], commands: Mapping[str, Command]) -> list[str]:
    """The words with flags spelt out. These tools accept the first letters of a flag if they are unique among the
    command's flags. Raises ArgumentError if they are ambiguous."""
    command = next((commands[word] for word in words if word in commands), None)
    own = None if command is None else (*_CONNECTION, *command.required, *command.optional, "help")
    known = [option.name for option in options]
    found: list[str] = []
    for position, word in enumerate(words):
        if word == "--":
            return [*found, *words[position:]]
        flag, equals, value = word[2:].partition("=")
        names = [name for name in known if name.startswith(flag) and (own is None or name in own)]
        if not word.startswith("--") or flag in known or not names:
            found.append(word)
        elif len(names) == 1:
            found.append(f"--{names[0]}{equals}{value}")
        else:
            listed = ", ".join(f"--{name}" for name in sorted(names))
            raise ArgumentError(f"ambiguous option: --{flag} could match {listed}")
    return found


AnyCommand = TypeVar("AnyCommand", bound=Command)


def chosen_command(arguments: Arguments, commands: Mapping[str, AnyCommand], summary: str) -> AnyCommand:
    """The command that the first word names. Raises UsageError without a word or a required flag, ArgumentError for an
    unknown word or flag: `--feature a=1 b=2` does not change two features."""
    if not arguments.words:
        raise UsageError(summary)
    name = arguments.words[0]
    command = commands.get(name)
    if command is None:
        choices = ", ".join(f"'{known}'" for known in commands)
        raise ArgumentError(f"invalid choice: '{name}' (choose from {choices})")
    for given, _ in arguments.in_order:
        if given not in (*_CONNECTION, *command.required, *command.optional):
            raise ArgumentError(f"unrecognized arguments: '--{given}'")
    if len(arguments.words) > 1:
        raise ArgumentError(f"unrecognized arguments: '{' '.join(arguments.words[1:])}'")
    check_required(arguments, *command.required)
    return command


def check_connection(arguments: Arguments) -> None:
    """Checks that exactly one of the two addresses is given. Raises ArgumentError."""
    if arguments.has("bootstrap-server") and arguments.has("bootstrap-controller"):
        raise ArgumentError("argument --bootstrap-controller: not allowed with argument --bootstrap-server")
    if not arguments.has("bootstrap-server", "bootstrap-controller"):
        raise ArgumentError("one of the arguments --bootstrap-server --bootstrap-controller is required")
