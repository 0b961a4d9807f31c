"""`moldau page`: the page to look at, for any Kafka cluster."""

from __future__ import annotations

import argparse
import socket

from moldau.cli.arguments import Subparsers
from moldau.cli.cluster import DEFAULT_BOOTSTRAP_SERVER, check_address
from moldau.cli.output import CommandError

DEFAULT_PAGE_PORT = 9080
BACKLOG = 64


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "page",
        help="serve a read-only page over a cluster: topics, live tail, groups and lag",
        examples=("moldau page", "moldau page -b kafka.example.org:9092 --port 0"),
    )
    parser.add_argument(
        "--bootstrap-server",
        "--bootstrap",
        "-b",
        default=DEFAULT_BOOTSTRAP_SERVER,
        metavar="HOST:PORT",
        help="any broker of the cluster, Moldau or Apache Kafka (default %(default)s)",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=DEFAULT_PAGE_PORT,
        help="on 127.0.0.1; 0 picks a free one (default %(default)s)",
    )
    parser.set_defaults(run=page)


def page(arguments: argparse.Namespace) -> int:
    """Serves until Ctrl-C."""
    check_address(arguments)
    try:
        listening = listen(arguments.port)
    except OSError as error:
        raise CommandError(f"--port {arguments.port}: {error.strerror}; --port 0 picks a free one") from error
    from moldau.products.console.service import serve

    print(f"page http://127.0.0.1:{listening.getsockname()[1]}/", flush=True)
    serve(arguments.bootstrap_server, listening)
    return 0


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
