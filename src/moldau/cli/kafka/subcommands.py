"""Tools with sub-commands, as argparse4j reads them: each has flags of its own, beside those of the connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from moldau.cli.kafka.options import ArgumentError, Arguments, Option, UsageError, check_required
from moldau.client.admin.client import ClusterAdmin


def bootstrap_controller(short: str = "") -> Option:
    return Option("bootstrap-controller", "The controllers to connect to.", "server to connect to", short=short)


BOOTSTRAP_CONTROLLER = bootstrap_controller()
_CONNECTION = ("bootstrap-server", "bootstrap-controller", "command-config")


class Command(msgspec.Struct, frozen=True):
    """One of them, with the flags that it must and may have."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


class ClusterCommand(Command, frozen=True, kw_only=True):
    """`run` prints, or raises KafkaError or ArgumentError."""

    run: Callable[[Arguments, ClusterAdmin], None]


class OfflineCommand(Command, frozen=True, kw_only=True):
    """As ClusterCommand, of one that asks no cluster."""

    run: Callable[[Arguments], None]


AnyCommand = TypeVar("AnyCommand", bound=Command)


def chosen_command(arguments: Arguments, commands: Mapping[str, AnyCommand], summary: str) -> AnyCommand:
    """The command that the first word names. Raises UsageError without a word or with a flag missing, ArgumentError for
    a word or a flag that does not belong there."""
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
    check_required(arguments, *command.required)
    return command


def check_connection(arguments: Arguments) -> None:
    """Exactly one of the two addresses is given. Raises ArgumentError."""
    if arguments.has("bootstrap-server") and arguments.has("bootstrap-controller"):
        raise ArgumentError("argument --bootstrap-controller: not allowed with argument --bootstrap-server")
    if not arguments.has("bootstrap-server", "bootstrap-controller"):
        raise ArgumentError("one of the arguments --bootstrap-server --bootstrap-controller is required")
