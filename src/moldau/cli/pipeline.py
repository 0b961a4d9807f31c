"""`moldau pipeline run FILE`: one YAML page through Spark."""

from __future__ import annotations

import argparse
import sys

from moldau.cli.arguments import Subparsers, input_path


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Adds the noun `pipeline` to the command line; `run` is set as the parser's default."""
    parser = subparsers.add_parser("pipeline", help="run a pipeline on Spark from one YAML page")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    run = verbs.add_parser(
        "run",
        help="run it until Ctrl-C, showing progress, rate and lag",
        description="Runs the pipeline of a YAML page on Spark, on this machine. No Java needs to be installed. "
        "Records reach a topic at least once: a batch that was cut short by a crash may come twice.",
        examples=("moldau pipeline run orders.yaml", "moldau pipeline run orders.yaml --once"),
    )
    run.add_argument(
        "file",
        type=input_path,
        metavar="FILE",
        help="the page: name, bootstrap_servers, source, sql, sink, ...; - is standard input",
    )
    run.add_argument("--once", action="store_true", help="process what is there now, then stop")
    run.set_defaults(run=run_page)


def run_page(arguments: argparse.Namespace) -> int:
    """The exit code: 0 after a clean end, 1 when the pipeline failed, 2 for a page that cannot be run."""
    from moldau.errors import MoldauError
    from moldau.extras import MissingExtraError, require_extra

    try:
        require_extra("moldau pipeline", "spark", ("numpy", "pyarrow", "pyspark", "pandas", "yaml", "rich"))
    except MissingExtraError as error:
        print(error, file=sys.stderr)
        return 2
    from moldau.products.pipelines.page import load_page
    from moldau.products.pipelines.runner import run_pipeline
    from moldau.products.pipelines.section import PageError

    try:
        run_pipeline(load_page(arguments.file), once=arguments.once)
    except PageError as error:
        print(error, file=sys.stderr)
        return 2
    except MoldauError as error:
        print(f"moldau pipeline: {error}", file=sys.stderr)
        return 1
    return 0
