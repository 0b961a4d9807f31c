"""One command line of a case, and the compared part of its output."""

from __future__ import annotations

import msgspec


class Step(msgspec.Struct, frozen=True):
    """One command line. The compared part of its output:

    `is_sorted`: its lines in any order (Kafka prints a Java HashMap); `only_own`: only the heading and lines that name
    something of this case; `says`: also the first line of standard error; `is_quiet`: only the exit code; `is_masked`:
    cells that are numbers, as each run has others.
    """

    command: str
    text: str = ""
    is_sorted: bool = False
    only_own: bool = False
    says: bool = False
    is_quiet: bool = False
    is_masked: bool = False
