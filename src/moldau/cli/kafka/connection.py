"""How a tool reaches its cluster: `--bootstrap-server`, and the settings of `--command-config`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import msgspec

from moldau.cli.access import CLIENT_ID
from moldau.cli.arguments import input_path, origin_of
from moldau.cli.kafka.options import ArgumentError, Arguments
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import as_java_says
from moldau.client.protocol.access import BOOTSTRAP_SERVERS, AccessError, ClusterAccess
from moldau.client.protocol.secrets import Origin
from moldau.errors import KafkaError
from moldau.transport.access import open_admin as open_admin_of
from moldau.transport.access import open_controller_admin


def read_properties(path: str) -> dict[str, str]:
    """The settings of a Java properties file. Raises ArgumentError if it cannot be read."""
    from moldau.core.config.properties import parse_properties

    try:
        return parse_properties(input_path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ArgumentError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{path}: this is not UTF-8") from error
    except ValueError as error:
        raise ArgumentError(f"{path}: {error}") from error


def split_properties(pairs: list[str]) -> dict[str, str]:
    """name -> value for `name=value` words; a name alone has an empty value."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not name.strip():
            raise ArgumentError(f"Invalid command line properties: {pair}")
        found[name.strip()] = value.strip()
    return found


def open_admin(
    arguments: Arguments, *, timeout_ms: int | None = None, old_config: str = "command-config"
) -> ClusterAdmin:
    """A client of the cluster that `--bootstrap-server` names, or `--bootstrap-controller` if the tool has it.
    `old_config`: the former name of `--command-config`. Connects later; raises ArgumentError for an invalid address."""
    settings: Mapping[str, str] = {}
    origin = None
    config = _config(arguments, old_config)
    if config is not None:
        settings, origin = read_properties(config), origin_of(config)
    is_controller = arguments.has("bootstrap-controller")
    servers = arguments.required("bootstrap-controller" if is_controller else "bootstrap-server")
    access = _access(settings, servers, origin)
    if timeout_ms is not None:
        access = msgspec.structs.replace(access, request_timeout_ms=timeout_ms)
    return open_controller_admin(access) if is_controller else open_admin_of(access)


def _access(settings: Mapping[str, str], servers: str, origin: Origin | None) -> ClusterAccess:
    """`servers` override those of the settings. Raises ArgumentError."""
    named = {"client.id": CLIENT_ID, **settings, BOOTSTRAP_SERVERS: servers}
    try:
        return ClusterAccess.from_properties(named, origin=origin)
    except AccessError as error:
        if error.name == BOOTSTRAP_SERVERS:
            raise ArgumentError(f"Invalid url in {BOOTSTRAP_SERVERS}: {servers}") from error
        raise ArgumentError(str(error)) from error


def _config(arguments: Arguments, old: str) -> str | None:
    """The file of client settings."""
    if old == "command-config" or not arguments.has(old):
        return arguments.text("command-config")
    if arguments.has("command-config"):
        raise ArgumentError(f"--{old} and --command-config cannot be specified together.")
    told = f"Option --{old} has been deprecated and will be removed in a future version."
    print(f"{told} Use --command-config instead.", flush=True)
    return arguments.text(old)


def run_on_cluster(
    arguments: Arguments,
    act: Callable[[ClusterAdmin], None],
    *,
    old_config: str = "command-config",
    in_words: Callable[[KafkaError], str] = as_java_says,
) -> int:
    """Returns the exit code. Prints errors that `act` raises on standard error. `in_words`: the text of a KafkaError,
    by default as Java's Throwable prints it."""
    try:
        with open_admin(arguments, old_config=old_config) as admin:
            act(admin)
    except ArgumentError as error:
        print(error, file=sys.stderr)
        return 1
    except KafkaError as error:
        print(in_words(error), file=sys.stderr)
        return 1
    return 0
