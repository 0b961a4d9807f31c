"""`kafka-delegation-tokens`: creates, renews, expires and describes delegation tokens."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from functools import partial

from moldau.cli.kafka.connection import run_on_cluster
from moldau.cli.kafka.java_dates import format_time
from moldau.cli.kafka.options import (
    ArgumentError,
    Arguments,
    Option,
    UsageError,
    bootstrap_server,
    check_excluded,
    check_required,
)
from moldau.cli.output import printable
from moldau.client.admin import tokens as questions
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.tokens import DelegationToken, split_principal

SUMMARY = "This tool helps to create, renew, expire, or describe delegation tokens."


def _flag(name: str, text: str, argument: str) -> Option:
    return Option(name, text, argument, is_argument_optional=True, kind="long" if argument == "Long" else "text")


OPTIONS = (
    bootstrap_server(),
    Option(
        "command-config",
        "A file of client settings, one name=value a line: tokens are for clients that log in.",
        "config file",
        is_required=True,
    ),
    Option("create", "Create a token; --renewer-principal names who else may renew it."),
    Option("renew", "Let a token live longer, for --renew-time-period."),
    Option("expire", "End a token after --expiry-time-period."),
    Option("describe", "Describe the tokens of each --owner-principal."),
    _flag("owner-principal", "The owner, as principalType:name; may be repeated.", "String"),
    _flag("renewer-principal", "Who may renew the token, as principalType:name; may be repeated.", "String"),
    _flag("max-life-time-period", "How long a token may live, in ms; -1: as the brokers' settings say.", "Long"),
    _flag("renew-time-period", "For how long it is renewed, in ms; -1: as the brokers' settings say.", "Long"),
    _flag("expiry-time-period", "After how many ms it ends; -1: at once.", "Long"),
    _flag("hmac", "The HMAC of the token, in base64.", "String"),
)
_ACTIONS = {
    "create": (("max-life-time-period",), ("hmac", "expiry-time-period", "renew-time-period")),
    "renew": (
        ("hmac", "renew-time-period"),
        ("renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal"),
    ),
    "expire": (
        ("hmac", "expiry-time-period"),
        ("owner-principal", "renewer-principal", "max-life-time-period", "renew-time-period"),
    ),
    "describe": ((), ("renew-time-period", "hmac", "expiry-time-period", "max-life-time-period")),
}
"""The flags that each action requires, and those that it excludes."""
_COLUMNS = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
_WIDTHS = (15, 30, 15, 15, 25, 15, 15, 15)
_DATE = "yyyy-MM-dd'T'HH:mm"


def run(arguments: Arguments) -> int:
    given = [name for name in _ACTIONS if arguments.has(name)]
    if len(given) != 1:
        raise UsageError("Command must include exactly one action: --create, --renew, --expire or --describe")
    (action,) = given
    needed, excluded = _ACTIONS[action]
    check_required(arguments, "bootstrap-server", "command-config", *needed)
    check_excluded(arguments, action, *excluded)
    act = {"create": _create, "renew": _renew, "expire": _expire, "describe": _describe}[action]
    return run_on_cluster(arguments, partial(act, arguments))


def _create(arguments: Arguments, admin: ClusterAdmin) -> None:
    renewers, owners = _principals(arguments, "renewer-principal"), _principals(arguments, "owner-principal")
    period_ms = _period(arguments, "max-life-time-period")
    print(f"Calling create token operation with renewers :{_listed(renewers)} , max-life-time-period :{period_ms}")
    token = questions.create_token(
        admin, owner=owners[0] if owners else None, renewers=renewers, max_lifetime_ms=period_ms
    )
    print(f"Created delegation token with tokenId : {token.token_id}")
    _print_tokens([token])


def _renew(arguments: Arguments, admin: ClusterAdmin) -> None:
    text, period_ms = arguments.required("hmac"), _period(arguments, "renew-time-period")
    print(f"Calling renew token operation with hmac :{printable(text)} , renew-time-period :{period_ms}")
    expires_ms = questions.renew_token(admin, _hmac(text), period_ms)
    print(f"Completed renew operation. New expiry date : {format_time(_DATE, expires_ms)}", end="")


def _expire(arguments: Arguments, admin: ClusterAdmin) -> None:
    text, period_ms = arguments.required("hmac"), _period(arguments, "expiry-time-period")
    print(f"Calling expire token operation with hmac :{printable(text)} , expire-time-period :{period_ms}")
    expires_ms = questions.expire_token(admin, _hmac(text), period_ms)
    print(f"Completed expire operation. New expiry date : {format_time(_DATE, expires_ms)}", end="")


def _describe(arguments: Arguments, admin: ClusterAdmin) -> None:
    owners = _principals(arguments, "owner-principal")
    whom = f"owners: {_listed(owners)}" if owners else "current user."
    print(f"Calling describe token operation for {whom}")
    # Without an owner, Kafka's tool asks for no owners, and a broker then returns no token.
    found = questions.describe_tokens(admin, owners)
    print(f"Total number of tokens : {len(found)}", end="")
    _print_tokens(found)


def _principals(arguments: Arguments, name: str) -> list[str]:
    principals = [text.strip() for text in arguments.texts(name)]
    for text in principals:
        try:
            split_principal(text)
        except ValueError as error:
            raise ArgumentError(str(error)) from error
    return principals


def _period(arguments: Arguments, name: str) -> int:
    period_ms = arguments.integer(name)
    if period_ms is None:
        raise ArgumentError(f"Option {name} requires an argument")
    return period_ms


def _hmac(text: str) -> bytes:
    """Decodes base64 with or without padding, as Java's decoder does."""
    padding = "" if text.endswith("=") else "=" * (-len(text) % 4)
    try:
        hmac = base64.b64decode(text + padding, validate=True)
        questions.check_hmac(hmac)
    except (binascii.Error, ValueError) as error:
        raise ArgumentError(f"--hmac is no HMAC in base64: {error}") from error
    return hmac


def _print_tokens(found: Sequence[DelegationToken]) -> None:
    print(f"\n{_line(_COLUMNS)}")
    for token in found:
        dates = [format_time(_DATE, each) for each in (token.issued_ms, token.expires_ms, token.max_ms)]
        cells = (token.token_id, token.password, token.owner, token.requester, _listed(token.renewers), *dates)
        print(f"\n{_line([printable(cell) for cell in cells])}")


def _line(cells: Sequence[str]) -> str:
    return " ".join(f"{cell:<{width}}" for cell, width in zip(cells, _WIDTHS, strict=True))


def _listed(principals: Sequence[str]) -> str:
    return f"[{', '.join(map(printable, principals))}]"
