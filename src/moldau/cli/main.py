"""`moldau`: runs a command. Prints an error that a user can cause as one sentence."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code. Prints an error that a user can cause as one sentence on standard
    error."""
    words = list(sys.argv[1:] if argv is None else argv)
    _take_standard_descriptors()
    if sys.stderr is not None:
        return _guarded(words)
    with open(2, "w", encoding="utf-8", closefd=False) as nobody, redirect_stderr(nobody):
        return _guarded(words)


def _guarded(words: Sequence[str]) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for names with letters outside the terminal's encoding
    try:
        return _run(words)
    except UnicodeEncodeError as error:
        print(f"moldau: {error.object!a} is not UTF-8", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output (`| head`) has ended.
        _write_no_more()
        return 0
    except OSError as error:
        # Standard output cannot be written, for example on a full disk; or the user may not access the named file.
        where = "" if error.filename is None else f"{error.filename}: "
        print(f"moldau: {where}{error.strerror or error}", file=sys.stderr)
        _write_no_more()
        return 1


def _take_standard_descriptors() -> None:
    """Opens the null device for each closed standard descriptor (`<&-`). Otherwise a socket or a file of records would
    get the number: another library would print into it, and libuv aborts the process that closes such a socket."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, so this one


def _write_no_more() -> None:
    from moldau.cli.output import drop_output

    drop_output()
    sys.stderr.close()


def _run(words: Sequence[str]) -> int:
    # imported here: a Ctrl-C while the commands are imported shows no traceback either
    from moldau.cli.commands import build_parser
    from moldau.cli.kafka.tools import TOOLS, run_tool
    from moldau.cli.output import CommandError

    try:
        if words and words[0] in TOOLS:
            return run_tool(words[0], list(words[1:]))
        arguments = build_parser().parse_args(words)
        code = int(arguments.run(arguments) or 0)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except CommandError as error:
        print(f"moldau: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
