"""`moldau connect offsets`: shows the offsets of a connector, and resets or sets those of a stopped one."""

from __future__ import annotations

import argparse
import json

from moldau.cli.arguments import Subparsers, not_empty
from moldau.cli.connect.calls import add_url_arguments, call
from moldau.cli.connect.files import read_offsets
from moldau.cli.output import print_json, print_rows


def add_verb(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "offsets",
        help="show the offsets of a connector, or change those of a stopped one",
        examples=(
            "moldau connect offsets orders",
            "moldau connect offsets orders --reset",
            "moldau connect offsets orders --set offsets.json",
        ),
    )
    parser.add_argument("name", type=not_empty, metavar="NAME", help="of the connector")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--reset", action="store_true", help="delete all of them: the connector begins again")
    ways.add_argument("--set", metavar="FILE", help='JSON as `--json` prints it: {"offsets": [...]}')
    add_url_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    path = ("connectors", arguments.name, "offsets")
    if arguments.reset:
        print(call(arguments, "DELETE", *path)["message"])
        return 0
    if arguments.set is not None:
        print(call(arguments, "PATCH", *path, body=read_offsets(arguments.set))["message"])
        return 0
    found = call(arguments, "GET", *path)
    if arguments.json:
        print_json(found)
        return 0
    rows = [{key: json.dumps(value) for key, value in one.items()} for one in found["offsets"]]
    print_rows(rows, ("partition", "offset"), as_json=False, empty="no offsets")
    return 0
