"""`moldau sql`: the noun. Without a verb it is the shell."""

from __future__ import annotations

import argparse

from moldau.cli.arguments import Subparsers
from moldau.cli.sql import scripts, serve, shell, tests


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "sql",
        help="streaming SQL over topics: a shell, scripts and their tests",
        default_command="shell",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    shell.add_verb(verbs)
    scripts.add_verb(verbs)
    tests.add_verb(verbs)
    serve.add_verb(verbs)
