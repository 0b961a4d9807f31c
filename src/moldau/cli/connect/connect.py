"""`moldau connect`: the noun."""

from __future__ import annotations

import argparse

from moldau.cli.arguments import Subparsers
from moldau.cli.connect import connectors, new, offsets, plugins, serve, tests


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("connect", help="move data between topics and other systems: connectors")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    serve.add_verb(verbs)
    connectors.add_verbs(verbs)
    offsets.add_verb(verbs)
    plugins.add_verbs(verbs)
    new.add_verb(verbs)
    tests.add_verb(verbs)
