"""`moldau console`: the web console of any Kafka cluster."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from moldau.cli.access import access_of, settings_of
from moldau.cli.arguments import Subparsers
from moldau.cli.cluster import add_registry_argument, registry_of
from moldau.cli.output import CommandError
from moldau.cli.services.service import add_service_arguments, address_of, listen_as_told, opening_of

if TYPE_CHECKING:
    from moldau.products.console.connect_server import ConnectServer
    from moldau.products.console.sql_server import SqlServer

DEFAULT_CONSOLE_PORT = 9080


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "console",
        help="serve the web console of a cluster: topics, live tail, groups and lag",
        examples=("moldau console", "moldau console -b kafka.example.org:9092 --port 0"),
    )
    add_service_arguments(parser, DEFAULT_CONSOLE_PORT)
    add_registry_argument(parser, "show keys and values by the schemas of this registry", "as they are")
    parser.add_argument(
        "--sql",
        metavar="URL",
        help="show the streams, tables and queries of this `moldau sql serve`, and run statements there; instances with"
        " commas between them (default: sql.url of the profile)",
    )
    parser.add_argument(
        "--connect",
        metavar="URL",
        help="show the connectors of this `moldau connect serve`, or worker of Apache Kafka, and pause, resume, stop or"
        " restart them; workers with commas between them (default: connect.url of the profile)",
    )
    parser.set_defaults(run=console)


def console(arguments: argparse.Namespace) -> int:
    """Serves until Ctrl-C."""
    access = access_of(arguments)
    registry = registry_of(arguments)
    sql, connect = _called(arguments)
    opening = opening_of(arguments)
    listening = listen_as_told(arguments)
    from moldau.errors import MoldauError
    from moldau.products.console.service import Console

    try:
        service = Console(access, opening, registry=registry, sql=sql, connect=connect)
    except MoldauError as error:
        raise CommandError(str(error)) from error
    print(f"console {address_of(listening, opening)}", flush=True)
    service.serve(listening)
    return 0


def _called(arguments: argparse.Namespace) -> tuple[SqlServer | None, ConnectServer | None]:
    """Raises CommandError."""
    settings, origin = settings_of(arguments)
    sql, connect = arguments.sql or settings.get("sql.url"), arguments.connect or settings.get("connect.url")
    from moldau.client.protocol.secrets import AccessError
    from moldau.products.console.connect_server import ConnectServer
    from moldau.products.console.sql_server import SqlServer

    try:
        return (
            None if sql is None else SqlServer.at(sql, settings, origin),
            None if connect is None else ConnectServer.at(connect, settings, origin),
        )
    except AccessError as error:
        raise CommandError(str(error)) from error
