"""`moldau demo`: sends metrics or a log file through Spark and back, and counts the records."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from moldau.cli.access import access_of, add_security_arguments
from moldau.cli.arguments import Subparsers
from moldau.cli.output import CommandError

SHORTEST_SECONDS = 10


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "demo",
        help="run a broker and a pipeline on Spark, show a live table, and count every record",
        description="Starts a broker, sends this machine's metrics (or the lines of a log file) through a pipeline on "
        "Spark into a topic and Parquet files, counts everything again, draws a chart, and stops by itself.",
        examples=("moldau demo", "moldau demo --seconds 20 --file /var/log/syslog"),
    )
    parser.add_argument(
        "--seconds", type=_seconds, default=60, help=f"how long records are sent, from {SHORTEST_SECONDS} (default 60)"
    )
    parser.add_argument("--file", type=Path, metavar="PATH", help="send the lines of this file instead of the metrics")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("demo-output"),
        metavar="DIR",
        help="the directory of the results, which is deleted and made again (default %(default)s)",
    )
    parser.add_argument(
        "--bootstrap-servers",
        dest="bootstrap_server",
        metavar="HOST:PORT",
        help="use this cluster instead of starting a broker",
    )
    add_security_arguments(parser)
    parser.set_defaults(run=run_demo)


def run_demo(arguments: argparse.Namespace) -> int:
    """Exit code 0 if every record that was sent came back, 1 with the difference if not, 2 if the demo cannot start."""
    from moldau.errors import MoldauError
    from moldau.extras import MissingExtraError, require_extra

    try:
        require_extra("moldau demo", "spark")
    except MissingExtraError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.file is not None and not arguments.file.is_file():
        print(f"moldau demo: there is no file {arguments.file}", file=sys.stderr)
        return 2
    from moldau.products.demo.job import DemoSettings, run

    is_given = arguments.bootstrap_server or arguments.profile or arguments.command_config
    try:
        settings = DemoSettings(
            seconds=arguments.seconds,
            output=arguments.output,
            file=arguments.file,
            access=access_of(arguments) if is_given else None,
        )
        return run(settings)
    except (MoldauError, CommandError, ValueError) as error:
        print(f"moldau demo: {error}", file=sys.stderr)
        return 1


def _seconds(text: str) -> int:
    if not text.isdigit() or not SHORTEST_SECONDS <= int(text) <= 86_400:
        raise argparse.ArgumentTypeError(f"must be a whole number from {SHORTEST_SECONDS} to 86400, not {text!r}")
    return int(text)
