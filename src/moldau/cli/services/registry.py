"""`moldau registry`: schemas of records, for any Kafka cluster."""

from __future__ import annotations

import argparse

from moldau.cli.access import access_of
from moldau.cli.arguments import Subparsers
from moldau.cli.cluster import explained, require_registry
from moldau.cli.nodes.up import DEFAULT_REGISTRY_PORT
from moldau.cli.output import CommandError
from moldau.cli.services.service import add_service_arguments, address_of, listen_as_told, opening_of
from moldau.errors import MoldauError


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "registry",
        help="serve schemas of records (Avro, Protobuf, JSON) as Confluent's registry does",
        examples=("moldau registry", "moldau registry -b kafka.example.org:9092 --port 0"),
    )
    add_service_arguments(parser, DEFAULT_REGISTRY_PORT)
    parser.add_argument(
        "--topic",
        default="_schemas",
        help="where the schemas are kept: compacted, of one partition; made where it is absent (default %(default)s)",
    )
    parser.set_defaults(run=registry)


def registry(arguments: argparse.Namespace) -> int:
    """Serves until Ctrl-C."""
    access = access_of(arguments)
    require_registry("`moldau registry`")
    opening = opening_of(arguments)
    listening = listen_as_told(arguments)
    from moldau.products.registry.service import serve
    from moldau.products.registry.topic import SchemasTopic

    try:
        with explained(arguments):
            topic = SchemasTopic(access, arguments.topic)
    except MoldauError as error:
        raise CommandError(str(error)) from error
    print(f"registry {address_of(listening, opening)}", flush=True)
    serve(topic, listening, access, opening)
    return 0
