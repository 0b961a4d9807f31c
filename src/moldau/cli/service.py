"""What commands share that serve a cluster over HTTP on loopback: which cluster, which port, and the socket."""

from __future__ import annotations

import argparse
import socket

from moldau.cli.access import add_access_arguments
from moldau.cli.arguments import int32
from moldau.cli.output import CommandError

BACKLOG = 64


def add_service_arguments(parser: argparse.ArgumentParser, default_port: int) -> None:
    add_access_arguments(parser, "--bootstrap", whose="any broker of the cluster, Moldau or Apache Kafka")
    parser.add_argument(
        "--port",
        type=int32,
        default=default_port,
        help="on 127.0.0.1; 0 picks a free one (default %(default)s)",
    )


def listen_as_told(arguments: argparse.Namespace) -> socket.socket:
    """At the port of `add_service_arguments`. Raises CommandError."""
    try:
        return listen(arguments.port)
    except OSError as error:
        raise CommandError(f"--port {arguments.port}: {error.strerror}; --port 0 picks a free one") from error


def listen(port: int) -> socket.socket:
    """A listening socket on loopback, for nobody else. Raises OSError, OverflowError."""
    if not 0 <= port <= 65535:
        raise CommandError(f"a port is a number from 0 to 65535, not {port}")
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening
