"""`moldau up`: a broker that runs until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from moldau.cli.arguments import Subparsers, int32, not_empty, settings_in
from moldau.cli.cluster import require_registry, split_setting
from moldau.cli.output import CommandError
from moldau.client.protocol.access import ClusterAccess
from moldau.types import hint

if TYPE_CHECKING:
    from moldau.cli.nodes.up_tls import LocalTls
    from moldau.core.config.broker_settings import BrokerSettings
    from moldau.shell.node.assemble import Node

DEFAULT_DATA_DIR = "./moldau-data"
DEFAULT_LISTEN = "127.0.0.1:9092"
DEFAULT_REGISTRY_PORT = 8081
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
            "moldau up --brokers 3    # a cluster of three processes, on ports 9092, 9093 and 9094",
            "moldau up --brokers 3 --listen 0.0.0.0:9092    # the same, reached from other machines too",
            "moldau up --tls    # clients speak TLS; prints what they need for it",
        ),
    )
    parser.add_argument(
        "--brokers",
        type=int32,
        metavar="N",
        help="a cluster of N processes, each a broker and a controller (default: what the directory holds, else 1)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--data-dir",
        type=not_empty,
        metavar="DIR",
        help=f"where records are kept (default: log.dirs, else {DEFAULT_DATA_DIR})",
    )
    where.add_argument(
        "--in-memory", action="store_true", help="keep nothing on disk: all records are gone when the broker stops"
    )
    parser.add_argument(
        "--listen",
        type=not_empty,
        metavar="HOST:PORT",
        help=f"default: listeners, else {DEFAULT_LISTEN}; port 0 picks a free one; with --brokers, where the first "
        "broker listens: each further one has the next port",
    )
    parser.add_argument(
        "--tls",
        nargs="?",
        const="",
        metavar="DIR",
        help="clients speak TLS; the authority, made at the first time, and the certificate stand in DIR (default: the "
        "data directory; moldau certs issues more)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a broker setting by Kafka's name; may be repeated, and wins over --config; with --brokers, "
        "advertised.listeners and moldau.http.listener are those of the first broker: each further one has the next "
        "port",
    )
    parser.add_argument("--config", metavar="FILE", help="a properties file with broker settings; - is standard input")
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="the format of the log on standard error (default %(default)s)",
    )
    _add_beside(parser)
    parser.set_defaults(run=up)


def _add_beside(parser: argparse.ArgumentParser) -> None:
    """The flags of services next to the broker."""
    parser.add_argument("--no-console", action="store_true", help="do not serve the web console")
    parser.add_argument(
        "--console-port",
        type=int32,
        metavar="PORT",
        help="the port of the web console on 127.0.0.1 (default 9080, or a free one)",
    )
    parser.add_argument(
        "--registry",
        type=int32,
        nargs="?",
        const=DEFAULT_REGISTRY_PORT,
        metavar="PORT",
        help=f"serve a schema registry; the console decodes by it (default {DEFAULT_REGISTRY_PORT}; 0: a free one)",
    )


def up(arguments: argparse.Namespace) -> int:
    """Exit code 0 after Ctrl-C or SIGTERM. Raises CommandError for a broker that cannot start."""
    from moldau.core.config.broker_settings import parse_broker_settings
    from moldau.shell.node.log_format import start_logging

    start_logging(arguments.log_format)
    given = given_settings(arguments)
    cluster = cluster_to_run(arguments, given)
    if cluster is not None:
        directory, brokers = cluster
        with explained_failures(directory):
            return up_cluster(arguments, given, directory, brokers)
    with explained_failures():
        texts, tls = with_defaults(arguments, given)
        settings = parse_broker_settings(texts)
    if not settings.is_alone:
        start_logging(arguments.log_format, names_node=True)
    with explained_failures(Path(settings.log_directory or "")):
        return up_alone(arguments, settings, tls)


def up_alone(arguments: argparse.Namespace, settings: BrokerSettings, tls: LocalTls | None = None) -> int:
    """Runs one node. `tls`: the result of `--tls`."""
    from moldau.cli.nodes.announcement import announce
    from moldau.cli.nodes.up_tls import access_to_node
    from moldau.shell.node.main import run_node

    beside = listen_beside(arguments) if settings.is_broker else Beside()

    def announce_node(node: Node) -> None:
        # the address is known only now: port 0 picks a free port
        addresses = beside.start(access_to_node(settings, node.bootstrap_servers)) if settings.is_broker else {}
        announce(settings, node, arguments.in_memory, addresses, tls)

    directory = None if arguments.in_memory else settings.log_directory
    return run_node(settings, data_directory=directory, on_ready=announce_node)


def up_cluster(arguments: argparse.Namespace, given: dict[str, str], directory: Path, brokers: int) -> int:
    import asyncio

    from moldau.cli.nodes.local_cluster.layout import lay_out
    from moldau.cli.nodes.local_cluster.supervisor import announce_cluster, run_nodes
    from moldau.cli.nodes.up_tls import access_to_node, local_tls, tls_folder
    from moldau.core.config.broker_settings import parse_broker_settings
    from moldau.shell.io.clock import SystemClock
    from moldau.shell.io.random import SystemRandom

    host, _, port = check_address(arguments.listen or DEFAULT_LISTEN).rpartition(":")
    given.setdefault("moldau.http.listener", DEFAULT_HTTP_LISTENER)
    with locked(directory):
        folder, tls = tls_folder(arguments, directory), None
        if folder is not None:
            tls = local_tls(folder, given, host)
            given |= tls.settings
        nodes = lay_out(directory, brokers, host, int(port), given, SystemClock(), SystemRandom(), has_tls=bool(tls))
        beside = listen_beside(arguments)
        access = access_to_node(
            parse_broker_settings(settings_in(str(nodes[0].config))), ",".join(node.address for node in nodes)
        )
        return asyncio.run(
            run_nodes(
                nodes,
                arguments.log_format,
                lambda processes: announce_cluster(directory, processes, beside.start(access), tls),
            )
        )


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lets one command at a time lay out and run a local cluster. A second one would remove directories that the first
    is formatting, or report a port that the first has taken."""
    from moldau.shell.io.disk import OsDisk
    from moldau.shell.node.directories import LOCK_FILE

    try:
        release = OsDisk(str(directory)).lock(LOCK_FILE)
    except BlockingIOError as error:
        raise CommandError(f"{directory} is in use: `moldau up` runs there already") from error
    try:
        yield
    finally:
        release()


def cluster_to_run(arguments: argparse.Namespace, given: dict[str, str]) -> tuple[Path, int] | None:
    """The directory and the number of brokers of the cluster; None to run a single node. Raises CommandError."""
    from moldau.cli.nodes.local_cluster.layout import MAX_BROKERS, brokers_in

    asked = arguments.brokers
    if asked is not None and not 1 <= asked <= MAX_BROKERS:
        raise CommandError(f"--brokers takes 1 to {MAX_BROKERS}, not {asked}")
    if arguments.in_memory:
        if (asked or 1) > 1:
            raise CommandError("--in-memory runs one broker: the nodes of a cluster keep their records on disk")
        return None
    directory = Path(arguments.data_dir or given.get("log.dirs") or given.get("log.dir") or DEFAULT_DATA_DIR)
    known = brokers_in(directory)
    return (directory, asked or known) if (asked or 1) > 1 or known else None


@contextmanager
def explained_failures(directory: Path | None = None) -> Iterator[None]:
    """Turns the errors of a start into one-sentence CommandErrors; adds `directory` if the error does not name it."""
    from moldau.errors import MoldauError, StorageFailedError, StorageFullError

    try:
        yield
    except (StorageFailedError, StorageFullError) as error:
        named = "" if directory is None or str(directory.resolve()) in str(error) else f"{directory.resolve()}: "
        raise CommandError(f"{named}{error}") from error
    except MoldauError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise CommandError(f"{error.filename} is no address of this machine") from error
        where = f"{error.filename}: " if error.filename else ""
        raise CommandError(f"{where}{error.strerror or error}") from error


def given_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """The settings of the file, overridden by those of the command line. Raises CommandError for an unknown name on the
    command line. A file may have unknown names: plugins for Apache Kafka have their own settings."""
    from moldau.core.config.broker_settings import ROWS_BY_NAME, no_setting

    settings = settings_in(arguments.config) if arguments.config else {}
    for text in arguments.set:
        name, value = split_setting("--set", text)
        if name not in ROWS_BY_NAME and not name.startswith("listener.name."):
            raise CommandError(f"--set: {no_setting(name)}{hint(name, ROWS_BY_NAME)}")
        settings[name] = value
    return settings


def with_defaults(arguments: argparse.Namespace, given: dict[str, str]) -> tuple[dict[str, str], LocalTls | None]:
    """The settings of a node, and the result of `--tls`. Dedicated flags override settings, and unset settings get
    defaults. Raises CommandError."""
    settings = {"moldau.http.listener": DEFAULT_HTTP_LISTENER, **given}
    if arguments.data_dir or not ("log.dirs" in settings or "log.dir" in settings):
        settings["log.dirs"] = arguments.data_dir or DEFAULT_DATA_DIR
    protocol, tls = "PLAINTEXT", None
    address = check_address(arguments.listen or DEFAULT_LISTEN)
    if arguments.tls is not None:
        from moldau.cli.nodes.up_tls import PROTOCOL, local_tls, tls_folder

        directory = (settings.get("log.dirs") or settings.get("log.dir") or "").partition(",")[0]
        folder = tls_folder(arguments, directory)
        if folder is not None:
            protocol, tls = PROTOCOL, local_tls(folder, given, address.rpartition(":")[0])
            settings |= tls.settings
    if arguments.listen or "listeners" not in settings:
        settings["listeners"] = f"{protocol}://{address}"
    return settings, tls


def check_address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise CommandError(f"--listen takes HOST:PORT with a port of at most 65535, not {text!r}")
    return text


def listen_for_console(arguments: argparse.Namespace) -> socket.socket | None:
    """The socket of the web console, at another port if the usual one is taken; None without a console."""
    if arguments.no_console:
        return None
    from moldau.cli.services.console import DEFAULT_CONSOLE_PORT
    from moldau.cli.services.service import listen

    if arguments.console_port is not None:
        try:
            return listen(arguments.console_port)
        except OSError as error:
            raise CommandError(f"--console-port {arguments.console_port}: {error.strerror}") from error
    try:
        return listen(DEFAULT_CONSOLE_PORT)
    except OSError:
        return listen(0)


class Beside(msgspec.Struct, frozen=True):
    """The listening sockets of the services next to a broker; None for a service that is off."""

    console: socket.socket | None = None
    registry: socket.socket | None = None

    def start(self, access: ClusterAccess) -> dict[str, str]:
        """Starts the services; returns their addresses by name. Each process starts at its first request."""
        from moldau.cli.services.child_service import ChildService

        found: dict[str, str] = {}
        words: list[str] = []
        if self.registry is not None:
            found["registry"] = _address(self.registry)
            words = ["--registry", found["registry"]]
            ChildService("moldau.products.registry", self.registry, access).start()
        if self.console is not None:
            found["console"] = _address(self.console)
            ChildService("moldau.products.console", self.console, access, words).start()
        return found


def listen_beside(arguments: argparse.Namespace) -> Beside:
    """Raises CommandError."""
    registry = None
    if arguments.registry is not None:
        from moldau.cli.services.service import listen

        require_registry("`--registry`")
        try:
            registry = listen(arguments.registry)
        except OSError as error:
            raise CommandError(f"--registry {arguments.registry}: {error.strerror}") from error
    return Beside(listen_for_console(arguments), registry)


def _address(listening: socket.socket) -> str:
    return f"http://127.0.0.1:{listening.getsockname()[1]}/"
