"""`--server URL`: the shell and scripts of `moldau sql` against a running `moldau sql serve`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from moldau.cli.sql.engines import consoles, has_extra


def run_remotely(path: Path, arguments: argparse.Namespace) -> int:
    """Runs the statements of a file. 0, 1 if one failed, or 2 if the script was rejected before any has run."""
    if not has_extra(with_spark=False):
        return 2
    from moldau.errors import MoldauError
    from moldau.products.sql.engine.session import session_of
    from moldau.products.sql.terminal.answers import Printer
    from moldau.products.sql.terminal.interrupts import Interrupts
    from moldau.products.sql.terminal.remote import RemoteSql
    from moldau.products.sql.terminal.statements import read_script, run_shown

    if getattr(arguments, "once", False):
        print("moldau sql: --once is for queries of this process, not for those of a server", file=sys.stderr)
        return 2
    interrupts = Interrupts()
    console, errors = consoles(arguments)
    printer = Printer(console, errors, as_json=arguments.output == "json", is_cut=lambda: interrupts.is_pressed)

    def check() -> None:
        if interrupts.is_pressed:
            raise KeyboardInterrupt

    try:
        with interrupts:
            service, session = RemoteSql(arguments.server), session_of(dict(arguments.define), {})
            return run_shown(read_script(path), service, session, printer, path, check)
    except KeyboardInterrupt:
        return 0
    except MoldauError as error:
        print(f"moldau sql: {error}", file=sys.stderr)
        return 2


def open_remote_shell(arguments: argparse.Namespace) -> int:
    """The exit code: 0 after `exit`, 2 if the extra is missing or the address is not that of a server."""
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
