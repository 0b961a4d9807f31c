"""One command line of a case, and what is compared of it."""

from __future__ import annotations

import msgspec


class Step(msgspec.Struct, frozen=True):
    """One command line. What is compared of it:

    `is_sorted`: its lines in any order (Kafka prints what comes from a Java HashMap); `only_own`: only lines that name
    something of this case, and the heading; `says`: also the first line of standard error; `is_quiet`: only the exit
    code; `is_masked`: cells that are numbers, as each run has others.
    """

    command: str
    text: str = ""
    is_sorted: bool = False
    only_own: bool = False
    says: bool = False
    is_quiet: bool = False
    is_masked: bool = False
