"""`moldau doctor HOST:PORT`: why a client cannot use a cluster, and how to fix it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from moldau.cli.access import BOOTSTRAP_DEFAULT, access_of, add_access_arguments
from moldau.cli.arguments import Subparsers, seconds
from moldau.cli.output import print_json

if TYPE_CHECKING:
    from moldau.cli.diagnosis.steps import Finding

CLIENT_ID = "moldau-doctor"
DEFAULT_TIMEOUT_S = 5.0
_MARKS = {"ok": "ok  ", "warning": "warn", "failed": "FAIL"}


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="find out why a client cannot use a cluster, and how to fix it",
        examples=("moldau doctor", "moldau doctor kafka.example.org:9092 --round-trip"),
    )
    parser.add_argument("address", nargs="?", metavar="HOST:PORT", help=f"any broker (default: {BOOTSTRAP_DEFAULT})")
    add_access_arguments(parser, whose="the same address as a flag, as in the other commands")
    parser.add_argument(
        "--round-trip",
        action="store_true",
        help="also create a topic, write and read one record, compare the clocks, and delete the topic",
    )
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="NAME",
        help="also tell whether this client may read and write the topic; may be repeated",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help="how long each step may take (default %(default)g)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON: step, level, text, advice")
    parser.set_defaults(run=doctor)


def doctor(arguments: argparse.Namespace) -> int:
    """Exit code 0 if a client on this machine can work with the cluster, 1 if not."""
    from moldau.cli.diagnosis.steps import Diagnosis

    access = access_of(arguments, address=arguments.address).named(CLIENT_ID)
    findings: list[Finding] = []
    has_failed = False
    for host, port in access.addresses():
        diagnosis = Diagnosis(
            access, host, port, timeout_ms=int(arguments.timeout * 1000), tell=_say_nothing if arguments.json else _say
        )
        diagnosis.run(round_trip=arguments.round_trip, topics=arguments.topic)
        findings += diagnosis.findings
        has_failed = has_failed or diagnosis.has_failed
    if arguments.json:
        print_json([{name: getattr(one, name) for name in ("step", "level", "text", "advice")} for one in findings])
    else:
        _sum_up(findings)
    return 1 if has_failed else 0


def _say(finding: Finding) -> None:
    # a step may take seconds: show finished ones first
    print(f"{_MARKS[finding.level]}  {finding.step:<10}  {finding.text}", flush=True)


def _say_nothing(finding: Finding) -> None:
    """Prints nothing: JSON is printed whole at the end."""


def _sum_up(findings: list[Finding]) -> None:
    advice = list(dict.fromkeys(finding.advice for finding in findings if finding.advice))
    print()
    if not advice:
        print("Clients on this machine can work with this cluster.")
    for sentence in advice:
        print(sentence)
