"""`moldau up`: a broker that runs until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import errno
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.arguments import Subparsers, input_path
from moldau.cli.output import CommandError

if TYPE_CHECKING:
    import socket

    from moldau.core.config.broker_settings import BrokerSettings
    from moldau.shell.node.assemble import Node

DEFAULT_DATA_DIR = "./moldau-data"
DEFAULT_LISTEN = "127.0.0.1:9092"
DEFAULT_HTTP_LISTENER = "127.0.0.1:9644+"


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "up",
        help="run a broker",
        description="Runs a broker until Ctrl-C or SIGTERM.",
        examples=(
            "moldau up",
            "moldau up --in-memory --listen 127.0.0.1:0",
            "moldau up --data-dir /var/lib/moldau --set num.partitions=3",
        ),
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--data-dir", metavar="DIR", help=f"where records are kept (default: log.dirs, else {DEFAULT_DATA_DIR})"
    )
    where.add_argument(
        "--in-memory", action="store_true", help="keep nothing on disk: all records are gone when the broker stops"
    )
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help=f"default: listeners, else {DEFAULT_LISTEN}; port 0 picks a free one"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a broker setting by Kafka's name; may be repeated, and wins over --config",
    )
    parser.add_argument(
        "--config", metavar="FILE", help="a properties file with Kafka's broker settings; - is standard input"
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="the format of the log on standard error (default %(default)s)",
    )
    parser.add_argument("--no-page", action="store_true", help="do not serve the page")
    parser.add_argument(
        "--page-port", type=int, metavar="PORT", help="the port of the page on 127.0.0.1 (default 9080, or a free one)"
    )
    parser.set_defaults(run=up)


def up(arguments: argparse.Namespace) -> int:
    """Exit code 0 after Ctrl-C or SIGTERM; a broker that cannot start is a CommandError."""
    from moldau.core.config.broker_settings import parse_broker_settings
    from moldau.errors import MoldauError, StorageFailedError, StorageFullError
    from moldau.shell.node.log_format import start_logging
    from moldau.shell.node.main import run_node

    start_logging(arguments.log_format)
    directory = ""
    try:
        settings = parse_broker_settings(read_settings(arguments))
        directory = str(Path(settings.log_directory or "").resolve())
        page = listen_for_page(arguments)
        # Where it listens is known only once it does: port 0 picks one.
        return run_node(
            settings,
            data_directory=None if arguments.in_memory else settings.log_directory,
            on_ready=lambda node: announce(settings, node, arguments.in_memory, open_page(page, node)),
        )
    except (StorageFailedError, StorageFullError) as error:
        # the error names the file in it
        raise CommandError(str(error) if directory in str(error) else f"{directory}: {error}") from error
    except MoldauError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise CommandError(f"{error.filename} is no address of this machine") from error
        where = f"{error.filename}: " if error.filename else ""
        raise CommandError(f"{where}{error.strerror or error}") from error


def read_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """The settings that the command line, the file and the defaults make, in that order of weight."""
    from moldau.core.config.properties import parse_properties

    settings: dict[str, str] = {}
    if arguments.config:
        try:
            settings.update(parse_properties(input_path(arguments.config).read_text(encoding="utf-8")))
        except OSError as error:
            raise CommandError(f"cannot read {arguments.config}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise CommandError(f"{arguments.config} is not UTF-8") from error
    for text in arguments.set:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise CommandError(f"--set takes NAME=VALUE, not {text!r}")
        settings[name.strip()] = value.strip()
    if arguments.listen or "listeners" not in settings:
        settings["listeners"] = f"PLAINTEXT://{check_address(arguments.listen or DEFAULT_LISTEN)}"
    if arguments.data_dir or not ("log.dirs" in settings or "log.dir" in settings):
        settings["log.dirs"] = arguments.data_dir or DEFAULT_DATA_DIR
    settings.setdefault("moldau.http.listener", DEFAULT_HTTP_LISTENER)
    return settings


def check_address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise CommandError(f"--listen takes HOST:PORT with a port of at most 65535, not {text!r}")
    return text


def listen_for_page(arguments: argparse.Namespace) -> socket.socket | None:
    """The page's socket, on another port where the usual one is taken; None: no page is wanted."""
    if arguments.no_page:
        return None
    from moldau.cli.page import DEFAULT_PAGE_PORT, listen

    if arguments.page_port is not None:
        try:
            return listen(arguments.page_port)
        except OSError as error:
            raise CommandError(f"--page-port {arguments.page_port}: {error.strerror}") from error
    try:
        return listen(DEFAULT_PAGE_PORT)
    except OSError:
        return listen(0)


def open_page(listening: socket.socket | None, node: Node) -> str | None:
    """The address of the page, whose process starts with its first viewer."""
    if listening is None:
        return None
    from moldau.cli.page_process import PageProcess

    PageProcess(listening, node.bootstrap_servers).start()
    return f"http://127.0.0.1:{listening.getsockname()[1]}/"


def announce(settings: BrokerSettings, node: Node, is_in_memory: bool, page: str | None) -> None:
    """What runs, how durable it is, how to connect; last the line `ready HOST:PORT` that scripts wait for."""
    from moldau import __version__

    address = node.bootstrap_servers

    has_others = len(settings.controller_quorum_voters) > 1 or settings.controller_quorum_bootstrap_servers
    which = f"node {settings.node_id} of a cluster" if has_others else "a cluster of one node"
    print(f"Moldau {__version__}: broker and controller, {which}, Kafka protocol, no authentication")
    for notice in settings.notices():
        print(f"  note       {notice}")
    print(f"  records    {'in memory only' if is_in_memory else Path(settings.log_directory or '').resolve()}")
    print(f"  durability {durability(settings, is_in_memory)}")
    print(f"  connect    bootstrap.servers={address}")
    if page is not None:
        print(f"  page       {page}")
    if node.operations is not None:
        print(f"  metrics    http://{node.operations.address}/metrics (/live and /ready beside it)")
    print(f"  try        echo hello | moldau produce greetings -b {address}")
    print(f"ready {address}", flush=True)


def durability(settings: BrokerSettings, is_in_memory: bool) -> str:
    if is_in_memory:
        return "none: everything is gone when this process ends"
    if settings.log_flush_interval_messages == 1:
        return "an acknowledged record is on disk (fsync before the answer)"
    return (
        "an acknowledged record survives the death of this process, not a power cut "
        "(log.flush.interval.messages=1 waits for the disk)"
    )
