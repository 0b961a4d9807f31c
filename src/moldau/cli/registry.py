"""`moldau registry`: schemas of records, for any Kafka cluster."""

from __future__ import annotations

import argparse

from moldau.cli.arguments import Subparsers
from moldau.cli.cluster import DEFAULT_BOOTSTRAP_SERVER, check_address
from moldau.cli.output import CommandError
from moldau.cli.page import listen
from moldau.errors import MoldauError
from moldau.extras import MissingExtraError, require_extra

DEFAULT_REGISTRY_PORT = 8081
DEFAULT_TOPIC = "_schemas"


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "registry",
        help="serve schemas of records (Avro, Protobuf, JSON) as Confluent's registry does",
        examples=("moldau registry", "moldau registry -b kafka.example.org:9092 --port 0"),
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
        default=DEFAULT_REGISTRY_PORT,
        help="on 127.0.0.1; 0 picks a free one (default %(default)s)",
    )
    parser.add_argument(
        "--topic",
        default=DEFAULT_TOPIC,
        help="where the schemas are kept: compacted, of one partition; made where it is absent (default %(default)s)",
    )
    parser.set_defaults(run=registry)


def registry(arguments: argparse.Namespace) -> int:
    """Serves until Ctrl-C."""
    check_address(arguments)
    try:
        require_extra("`moldau registry`", "registry")
    except MissingExtraError as error:
        raise CommandError(str(error)) from error
    try:
        listening = listen(arguments.port)
    except OSError as error:
        raise CommandError(f"--port {arguments.port}: {error.strerror}; --port 0 picks a free one") from error
    from moldau.products.registry.service import serve
    from moldau.products.registry.topic import SchemasTopic

    try:
        topic = SchemasTopic(arguments.bootstrap_server, arguments.topic)
    except MoldauError as error:
        raise CommandError(str(error)) from error
    print(f"registry http://127.0.0.1:{listening.getsockname()[1]}/", flush=True)
    serve(topic, listening)
    return 0
