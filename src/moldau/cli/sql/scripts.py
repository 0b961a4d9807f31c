"""`moldau sql run`: runs a script, and the queries that it starts."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.arguments import Subparsers, input_path
from moldau.cli.sql.engines import (
    add_engine_arguments,
    add_output_argument,
    add_server_argument,
    add_variables_argument,
    consoles,
    engine_settings,
    has_extra,
)
from moldau.cli.sql.remote import run_remotely

if TYPE_CHECKING:
    from moldau.products.sql.terminal.script_run import Script


def add_verb(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    run = verbs.add_parser(
        "run",
        help="run a script, and its queries until Ctrl-C",
        description="Runs the statements of a file, one after the other, up to the first error. If they have started "
        "queries, runs these until Ctrl-C, and shows their progress. The exit code is 0 after a clean end, 1 when a "
        "statement or a query failed, and 2 when the script was rejected before any of its statements ran.",
        examples=(
            "moldau sql run pageviews.sql",
            "moldau sql run pageviews.sql --once -D country=ro",
            "moldau sql run pageviews.sql --spark spark.master=spark://10.0.0.1:7077",
        ),
    )
    run.add_argument("file", type=input_path, metavar="FILE", help="a file of SQL statements (- is standard input)")
    run.add_argument("--once", action="store_true", help="end when all records that are there have been processed")
    run.add_argument(
        "--name",
        type=_name,
        metavar="NAME",
        help="the name of the run: a run with the same name continues where the last one stopped (default: that of the "
        "file)",
    )
    add_server_argument(run)
    add_engine_arguments(run)
    add_variables_argument(run)
    add_output_argument(run)
    run.set_defaults(run=run_file)


def run_file(arguments: argparse.Namespace) -> int:
    """The exit code, as the command describes it."""
    return run_path(arguments.file, arguments, once=arguments.once)


def run_path(path: Path, arguments: argparse.Namespace, *, once: bool = False) -> int:
    """As `run_file`, with `arguments` of this verb or of the shell."""
    if arguments.server is not None:
        return run_remotely(path, arguments)
    if not has_extra():
        return 2
    from moldau.errors import MoldauError
    from moldau.products.sql.terminal.script_run import Script
    from moldau.products.sql.terminal.statements import read_script

    try:
        text = read_script(path)
    except MoldauError as error:
        print(f"moldau sql: {error}", file=sys.stderr)
        return 2
    return _run(Script(text, path, dict(arguments.define), once), arguments)


def name_of(path: Path) -> str:
    """The name of a run of this file."""
    return re.sub(r"[^\w.-]", "-", path.stem).lstrip(".") or "sql"


def _name(text: str) -> str:
    if not re.fullmatch(r"\w[\w.-]{0,99}", text):
        raise argparse.ArgumentTypeError(
            f"has letters, digits, `.`, `_` and `-`, and begins with a letter, not {text!r}"
        )
    return text


def _run(script: Script, arguments: argparse.Namespace) -> int:
    from moldau.errors import MoldauError
    from moldau.products.pipelines.running.stopping import StopRequest, signals
    from moldau.products.sql.terminal.answers import Printer
    from moldau.products.sql.terminal.embedded import open_engine
    from moldau.products.sql.terminal.script_run import keep_running, run_script
    from moldau.products.sql.terminal.statements import ScriptError
    from moldau.spark.definitions.python_functions import FunctionFileError

    as_json = arguments.output == "json"
    console, errors = consoles(arguments)
    stop = StopRequest()
    printer = Printer(console, errors, as_json=as_json, is_cut=lambda: stop.is_asked)
    try:
        script.check()
    except ScriptError as error:
        printer.error(error.cause, error.text)
        return 2
    failures = []
    try:
        settings = engine_settings(arguments, f"run-{getattr(arguments, 'name', None) or name_of(script.path)}")
        with signals(stop), open_engine(settings, dict(arguments.spark), arguments.functions, errors) as embedded:
            code = run_script(script, embedded, printer, stop)
            if code == 0 and embedded.catalog.queries and not stop.is_asked:
                failures = [*keep_running(script, embedded, None if as_json else console, stop)]
    except FunctionFileError as error:
        print(f"moldau sql: {error}", file=sys.stderr)
        return 2
    except MoldauError as error:
        failures = [str(error)]
        code = 1
    for failure in failures:
        print(f"moldau sql: {failure}", file=sys.stderr)
    return 1 if failures else code
