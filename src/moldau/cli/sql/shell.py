"""`moldau sql`: the shell."""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys

from moldau.cli.arguments import STANDARD_INPUT, Subparsers, input_path
from moldau.cli.sql.engines import (
    add_engine_arguments,
    add_output_argument,
    add_server_argument,
    add_variables_argument,
    consoles,
    engine_settings,
    has_extra,
)
from moldau.cli.sql.remote import open_remote_shell
from moldau.cli.sql.scripts import run_path


def add_verb(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    shell = verbs.add_parser(
        "shell",
        help="enter statements and see their answers; `moldau sql` alone does the same",
        description="Reads statements from the terminal and shows their answers. Rows appear as they come, and a table "
        "updates in place; Ctrl-C ends it. Streams, tables and queries live as long as the shell. Topics, and what the "
        "queries have written, stay. Standard input that is no terminal is read as a script.",
        examples=(
            "moldau sql",
            "moldau sql --server http://localhost:8088",
            "echo 'SHOW TOPICS;' | moldau sql --output json",
        ),
    )
    add_server_argument(shell)
    add_engine_arguments(shell)
    add_variables_argument(shell)
    add_output_argument(shell)
    shell.set_defaults(run=open_shell)


def open_shell(arguments: argparse.Namespace) -> int:
    """0 after `exit`, 1 if the engine does not start, 2 for a missing extra or a wrong file of functions."""
    if not sys.stdin.isatty():
        return run_path(input_path(STANDARD_INPUT), arguments)
    if arguments.server is not None:
        return open_remote_shell(arguments)
    if not has_extra():
        return 2
    from moldau.errors import MoldauError
    from moldau.products.sql.terminal.answers import Printer
    from moldau.products.sql.terminal.embedded import open_engine, summary
    from moldau.products.sql.terminal.shell import Shell, history_path
    from moldau.spark.definitions.python_functions import FunctionFileError

    console, _ = consoles(arguments)
    as_json = arguments.output == "json"
    # no two shells share a query, and a new shell begins with new ones
    settings = engine_settings(arguments, f"sql-shell-{secrets.token_hex(4)}")
    try:
        with open_engine(settings, dict(arguments.spark), arguments.functions, console) as embedded:
            shell = Shell(
                embedded,
                lambda is_cut: Printer(console, as_json=as_json, is_cut=is_cut),
                history_path(),
                lambda: summary(embedded.statuses()),
                variables=dict(arguments.define),
            )
            console.print("help shows some statements, Ctrl-D ends", style="dim")
            shell.run()
    except FunctionFileError as error:
        print(f"moldau sql: {error}", file=sys.stderr)
        return 2
    except MoldauError as error:
        print(f"moldau sql: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(settings.directory, ignore_errors=True)
    return 0
