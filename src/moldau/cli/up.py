"""`moldau up`: a broker that runs until it is told to stop."""

from __future__ import annotations

import argparse
from pathlib import Path

from moldau.cli.output import CommandError

Subparsers = argparse._SubParsersAction  # argparse gives the type no public name


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("up", help="run a broker")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--data-dir", default="./moldau-data", metavar="DIR", help="where the records are kept (default %(default)s)"
    )
    where.add_argument("--in-memory", action="store_true", help="keep nothing on disk: gone when it stops")
    parser.add_argument("--listen", metavar="HOST:PORT", help="default 127.0.0.1:9092; port 0 picks a free one")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a broker setting by Kafka's name; may be repeated, and wins over --config",
    )
    parser.add_argument("--config", metavar="FILE", help="a properties file with Kafka's broker settings")
    parser.set_defaults(run=up)


def up(arguments: argparse.Namespace) -> int:
    from moldau.core.config.properties import parse_properties

    settings: dict[str, str] = {}
    if arguments.config:
        try:
            settings.update(parse_properties(Path(arguments.config).read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"cannot read {arguments.config}: {error}") from error
    for text in arguments.set:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise CommandError(f"--set takes NAME=VALUE, not {text!r}")
        settings[name.strip()] = value.strip()
    raise CommandError(f"not wired: {settings}")
