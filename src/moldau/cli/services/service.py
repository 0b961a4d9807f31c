"""Shared by commands that serve HTTP: the cluster, the logins, the port and the socket."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.access import add_access_arguments
from moldau.cli.arguments import int32
from moldau.cli.output import CommandError

if TYPE_CHECKING:
    from moldau.products.service.logins.opened import Opening

BACKLOG = 64
LOOPBACK = "127.0.0.1"


def add_service_arguments(parser: argparse.ArgumentParser, default_port: int) -> None:
    add_access_arguments(parser, "--bootstrap", whose="any broker of the cluster, Moldau or Apache Kafka")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument(
        "--port", type=int32, default=default_port, help="on 127.0.0.1; 0 picks a free one (default %(default)s)"
    )
    add_listen_argument(ways)
    add_login_argument(parser)


def add_listen_argument(parser: argparse._ActionsContainer, what: str = "listen") -> None:
    parser.add_argument(
        "--listen",
        type=_address,
        metavar="HOST:PORT",
        help=f"{what}, elsewhere than on 127.0.0.1; needs --login, with TLS",
    )


def add_login_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--login", type=Path, metavar="FILE", help="logins, roles and TLS of the service")


def opening_of(arguments: argparse.Namespace) -> Opening:
    """Raises CommandError if the service would be open to others without a login or without TLS."""
    from moldau.errors import MoldauError
    from moldau.products.service.logins.opened import read_opening

    host = LOOPBACK if arguments.listen is None else arguments.listen[0]
    try:
        return read_opening(host, arguments.login)
    except MoldauError as error:
        raise CommandError(str(error)) from error


def listen_as_told(arguments: argparse.Namespace) -> socket.socket:
    """A socket at the address of `add_service_arguments`. Raises CommandError."""
    if arguments.listen is not None:
        host, port = arguments.listen
        try:
            return listen(port, host)
        except OSError as error:
            raise CommandError(f"--listen {host}:{port}: {error.strerror}") from error
    try:
        return listen(arguments.port)
    except OSError as error:
        raise CommandError(f"--port {arguments.port}: {error.strerror}; --port 0 picks a free one") from error


def address_of(listening: socket.socket, opening: Opening, named: Callable[[str], str] = str) -> str:
    """The URL of the first page. `named`: gives the host for the address that is bound."""
    bound, port = listening.getsockname()[:2]
    host = named(bound)
    return f"{opening.scheme}://{f'[{host}]' if ':' in host else host}:{port}/"


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"must be HOST:PORT, as in 0.0.0.0:9080, not {text!r}")
    return host.strip("[]"), int(port)


def listen(port: int, host: str = LOOPBACK) -> socket.socket:
    """A listening socket, by default only on the loopback. Raises OSError, OverflowError."""
    if not 0 <= port <= 65535:
        raise CommandError(f"a port is a number from 0 to 65535, not {port}")
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening
