"""`--server URL`: the shell and scripts of `moldau sql` against a running `moldau sql serve`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.sql.engines import consoles, has_extra

if TYPE_CHECKING:
    from moldau.products.sql.engine.answers import Answer


def run_remotely(path: Path, arguments: argparse.Namespace) -> int:
    """Runs the statements of a file. 0, 1 if one failed, or 2 if the script was rejected before any has run."""
    if not has_extra(with_spark=False):
        return 2
    from moldau.errors import MoldauError
    from moldau.products.sql.engine.session import session_of
    from moldau.products.sql.language.errors import SqlError
    from moldau.products.sql.terminal.answers import Printer
    from moldau.products.sql.terminal.interrupts import Interrupts
    from moldau.products.sql.terminal.remote import RemoteSql
    from moldau.products.sql.terminal.statements import ScriptError, read_script, run_text

    if getattr(arguments, "once", False):
        print("moldau sql: --once is for queries of this process, not for those of a server", file=sys.stderr)
        return 2
    interrupts, count = Interrupts(), 0
    console, errors = consoles(arguments)
    printer = Printer(console, errors, as_json=arguments.output == "json", is_cut=lambda: interrupts.is_pressed)

    def show(answer: Answer) -> None:
        nonlocal count
        count += 1
        printer.show(answer)
        if interrupts.is_pressed:
            raise KeyboardInterrupt

    try:
        with interrupts:
            run_text(read_script(path), RemoteSql(arguments.server), session_of(dict(arguments.define), {}), show, path)
    except KeyboardInterrupt:
        return 0
    except ScriptError as error:
        printer.error(error.cause, error.text)
        return 2 if count == 0 and isinstance(error.cause, SqlError) else 1
    except MoldauError as error:
        print(f"moldau sql: {error}", file=sys.stderr)
        return 2
    return 0


def open_remote_shell(arguments: argparse.Namespace) -> int:
    """0 after `exit`, 2 for a missing extra or an address that is none."""
    if not has_extra(with_spark=False):
        return 2
    from moldau.errors import MoldauError
    from moldau.products.sql.terminal.answers import Printer
    from moldau.products.sql.terminal.remote import RemoteSql
    from moldau.products.sql.terminal.shell import Shell, history_path

    console, _ = consoles(arguments)
    try:
        service = RemoteSql(arguments.server)
    except MoldauError as error:
        print(f"moldau sql: {error}", file=sys.stderr)
        return 2
    shell = Shell(
        service,
        lambda is_cut: Printer(console, as_json=arguments.output == "json", is_cut=is_cut),
        history_path(),
        lambda: service.name,
        variables=dict(arguments.define),
    )
    console.print("help shows some statements, Ctrl-D ends", style="dim")
    shell.run()
    return 0
