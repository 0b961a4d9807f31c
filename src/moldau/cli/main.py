"""`moldau`: the entry that parses the command line and calls the noun's module."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from moldau import __version__
from moldau.cli import consume, demo, doctor, groups, page, pipeline, produce, topics, up
from moldau.cli.kafka.tools import TOOLS, run_tool
from moldau.cli.output import CommandError


def build_parser() -> argparse.ArgumentParser:
    """The whole command tree. Imports nothing heavy: `moldau --help` answers within 200 ms."""
    parser = argparse.ArgumentParser(
        prog="moldau", description="Event streaming that speaks the Apache Kafka protocol, with pipelines on Spark."
    )
    parser.add_argument("--version", action="version", version=f"moldau {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (up, topics, produce, consume, groups, page, doctor, pipeline, demo):
        module.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; gives the exit code. Errors that a user can cause are one sentence on standard error."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words and words[0] in TOOLS:
            return run_tool(words[0], words[1:])
        arguments = build_parser().parse_args(words)
        return int(arguments.run(arguments) or 0)
    except CommandError as error:
        print(f"moldau: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output (`| head`) has gone; Python would complain again when it closes standard output.
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
