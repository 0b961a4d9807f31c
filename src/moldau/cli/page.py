"""`moldau page`: the page to look at, for any Kafka cluster."""

from __future__ import annotations

import argparse

from moldau.cli.access import access_of
from moldau.cli.arguments import Subparsers
from moldau.cli.cluster import add_registry_argument, registry_of
from moldau.cli.output import CommandError
from moldau.cli.service import add_service_arguments, address_of, listen_as_told, opening_of

DEFAULT_PAGE_PORT = 9080


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "page",
        help="serve a read-only page over a cluster: topics, live tail, groups and lag",
        examples=("moldau page", "moldau page -b kafka.example.org:9092 --port 0"),
    )
    add_service_arguments(parser, DEFAULT_PAGE_PORT)
    add_registry_argument(parser, "show keys and values by the schemas of this registry", "as they are")
    parser.set_defaults(run=page)


def page(arguments: argparse.Namespace) -> int:
    """Serves until Ctrl-C."""
    access = access_of(arguments)
    registry = registry_of(arguments)
    opening = opening_of(arguments)
    listening = listen_as_told(arguments)
    from moldau.errors import MoldauError
    from moldau.products.console.service import Console

    try:
        console = Console(access, opening, registry=registry)
    except MoldauError as error:
        raise CommandError(str(error)) from error
    print(f"page {address_of(listening, opening)}", flush=True)
    console.serve(listening)
    return 0
