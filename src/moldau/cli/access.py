"""How a command reaches its cluster: `-b`, `--profile`, `--command-config`, and the environment.

No flag takes a secret. Secrets come from a file, the environment or standard input (`--command-config -`).
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from moldau.cli.arguments import not_empty, origin_of, settings_in
from moldau.cli.output import CommandError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moldau.client.protocol.access import ClusterAccess
    from moldau.client.protocol.secrets import Origin

CLIENT_ID = "moldau-cli"
BOOTSTRAP_VARIABLE = "MOLDAU_BOOTSTRAP_SERVER"
PROFILE_VARIABLE = "MOLDAU_PROFILE"
DEFAULT_BOOTSTRAP_SERVER = "127.0.0.1:9092"
BOOTSTRAP_DEFAULT = (
    f"that of the profile, else {BOOTSTRAP_VARIABLE} of the environment, else {DEFAULT_BOOTSTRAP_SERVER}"
)
"""The default as the help states it."""


def add_access_arguments(parser: argparse.ArgumentParser, *more_names: str, whose: str = "any broker") -> None:
    """Adds the flags of every command that reaches a cluster; `access_of` reads them. `more_names`: further names of
    `--bootstrap-server`."""
    parser.add_argument(
        "--bootstrap-server",
        *more_names,
        "-b",
        metavar="HOST:PORT",
        help=f"{whose} (default: {BOOTSTRAP_DEFAULT})",
    )
    add_security_arguments(parser)


def add_security_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `add_access_arguments` except `--bootstrap-server`."""
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument(
        "--profile",
        type=not_empty,
        metavar="NAME",
        help=f"the profile of ~/.config/moldau/profiles.toml to use (default: {PROFILE_VARIABLE} of the environment)",
    )
    ways.add_argument(
        "--command-config",
        type=not_empty,
        metavar="FILE",
        help="a file with the settings of a client, by Kafka's names; - is standard input",
    )


def access_of(arguments: argparse.Namespace, *, address: str | None = None) -> ClusterAccess:
    """The access to the cluster that the command names. Reads it once, with its stores and secrets. `address` overrides
    the flags. Raises CommandError."""
    known: ClusterAccess | None = getattr(arguments, "access", None)
    if known is None:
        known = arguments.access = _access(arguments, arguments.bootstrap_server if address is None else address)
        _check(known)
    return known


def settings_of(arguments: argparse.Namespace) -> tuple[Mapping[str, str], Origin | None]:
    """The client settings from the file or the profile, and the origin of their secrets. Raises CommandError."""
    access_of(arguments)
    if arguments.command_config is not None:
        return arguments.settings, origin_of(arguments.command_config)
    profile = arguments.profile or os.environ.get(PROFILE_VARIABLE)
    if not profile:
        return {}, None
    from moldau.transport.profiles import origin_of_profile, profile_properties, profiles_path

    path = profiles_path()
    return profile_properties(path, profile), origin_of_profile(path, profile)


def access_to(bootstrap_servers: str) -> ClusterAccess:
    """Raises CommandError for an invalid address."""
    from moldau.client.protocol.access import ClusterAccess

    try:
        return ClusterAccess(bootstrap_servers)
    except ValueError as error:
        raise CommandError(str(error)) from error


def default_bootstrap_server() -> str:
    """The broker for a command that names no broker and no profile."""
    return os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP_SERVER


def _access(arguments: argparse.Namespace, servers: str | None) -> ClusterAccess:
    from moldau.client.protocol.access import BOOTSTRAP_SERVERS, AccessError, ClusterAccess

    path = arguments.command_config
    if path is None:
        profile = arguments.profile or os.environ.get(PROFILE_VARIABLE)
        if profile:
            return _of_profile(profile, servers)
        return access_to(default_bootstrap_server() if servers is None else servers)
    settings = arguments.settings = settings_in(path)
    if servers is None:
        servers = settings.get(BOOTSTRAP_SERVERS) or default_bootstrap_server()
    settings[BOOTSTRAP_SERVERS] = servers
    try:
        return ClusterAccess.from_properties(settings, origin=origin_of(path))
    except AccessError as error:
        raise CommandError(f"{path}: {error}") from error


def _of_profile(name: str, servers: str | None) -> ClusterAccess:
    from moldau.errors import KafkaError
    from moldau.transport.profiles import profile_access

    try:
        return profile_access(name, servers=servers)
    except KafkaError as error:
        raise CommandError(str(error)) from error


def _check(access: ClusterAccess) -> None:
    """Reports an unreadable store or secret as one sentence before the command begins."""
    from moldau.client.protocol.security import PLAIN_TEXT

    if access.security == PLAIN_TEXT:
        return
    from moldau.errors import KafkaError
    from moldau.transport.security import check_readable

    try:
        check_readable(access)
    except KafkaError as error:
        raise CommandError(str(error)) from error
