"""`moldau tokens create|renew|expire|list`: delegation tokens. A client with a token logs in as its owner."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from moldau.cli.access import access_of
from moldau.cli.arguments import Subparsers, duration_ms, not_empty
from moldau.cli.cluster import add_cluster_arguments, cluster_admin
from moldau.cli.output import CommandError, print_json, print_rows, printable
from moldau.wire.protocol.acl_words import principal_of
from moldau.wire.protocol.acls import AclOperation, AclResourceType

if TYPE_CHECKING:
    from moldau.client.admin.client import ClusterAdmin
    from moldau.client.admin.tokens import DelegationToken

_COLUMNS = ["token_id", "owner", "requester", "renewers", "issued", "expires", "max"]
_BY_SETTING_MS = -1


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("tokens", help="delegation tokens: create, renew, expire, list")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    create = verbs.add_parser(
        "create",
        help="create a token, and print its settings for a client",
        description="Prints the id of the token and its HMAC, the secret by which a client logs in as the owner, as "
        "settings that every client of Java and `--command-config` of this command take.",
        examples=(
            "moldau tokens create --command-config ann.properties > token.properties",
            "moldau tokens create --owner ann --renewer etl --max-lifetime 12h --profile admin",
        ),
    )
    create.add_argument("--owner", type=not_empty, metavar="NAME", help="ann or User:ann (default: you)")
    create.add_argument(
        "--renewer",
        action="append",
        default=[],
        type=not_empty,
        metavar="NAME",
        help="a user who may renew and expire it, as the owner may; may be repeated",
    )
    create.add_argument(
        "--max-lifetime",
        type=duration_ms,
        default=_BY_SETTING_MS,
        metavar="DURATION",
        help="no renewal goes beyond it (default: delegation.token.max.lifetime.ms of the brokers)",
    )
    add_cluster_arguments(create, create_token)

    renew = verbs.add_parser(
        "renew",
        help="let a token live longer",
        examples=("moldau tokens renew 0bV_VX68SpOuSptVcpeXig --for 8h",),
    )
    renew.add_argument("token_id", type=not_empty, metavar="TOKEN_ID")
    renew.add_argument(
        "--for",
        dest="period",
        type=duration_ms,
        default=_BY_SETTING_MS,
        metavar="DURATION",
        help="from now on (default: delegation.token.expiry.time.ms of the brokers)",
    )
    add_cluster_arguments(renew, renew_token)

    expire = verbs.add_parser(
        "expire",
        help="end a token, at once or soon",
        examples=("moldau tokens expire 0bV_VX68SpOuSptVcpeXig", "moldau tokens expire ID --in 10m"),
    )
    expire.add_argument("token_id", type=not_empty, metavar="TOKEN_ID")
    expire.add_argument(
        "--in", dest="period", type=duration_ms, default=_BY_SETTING_MS, metavar="DURATION", help="default: at once"
    )
    add_cluster_arguments(expire, expire_token)

    listing = verbs.add_parser(
        "list",
        help="list the tokens that you may see, without their HMACs",
        examples=("moldau tokens list", "moldau tokens list --owner ann"),
    )
    listing.add_argument(
        "--owner", action="append", default=[], type=not_empty, metavar="NAME", help="only those of this owner"
    )
    add_cluster_arguments(listing, list_tokens)


def create_token(arguments: argparse.Namespace) -> int:
    from moldau.cli.diagnosis.refusals import line_that_allows, principal_of_client
    from moldau.client.admin import tokens as questions
    from moldau.errors import KafkaError

    owner = None if arguments.owner is None else principal_of(arguments.owner)
    renewers = [principal_of(each) for each in arguments.renewer]
    with cluster_admin(arguments) as admin, _in_words():
        try:
            token = questions.create_token(
                admin, owner=owner, renewers=renewers, max_lifetime_ms=arguments.max_lifetime
            )
        except KafkaError as error:
            if error.name != "DELEGATION_TOKEN_AUTHORIZATION_FAILED" or owner is None:
                raise
            who = principal_of_client(access_of(arguments).security)
            line = line_that_allows(who, AclOperation.CREATE_TOKENS, AclResourceType.USER, owner)
            raise CommandError(f"{who} may not create tokens of {owner}. An administrator allows it: {line}") from error
    if arguments.json:
        print_json({**_row(token), "hmac": token.password})
        return 0
    print(f"# delegation token of {printable(token.owner)}, until {_time(token.expires_ms)} unless it is renewed")
    for name, value in _properties(arguments, token).items():
        print(f"{name}={_escaped(value)}")
    return 0


def renew_token(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import tokens as questions

    return _change(arguments, questions.renew_token)


def expire_token(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import tokens as questions

    return _change(arguments, questions.expire_token)


def list_tokens(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import tokens as questions

    owners = [principal_of(each) for each in arguments.owner] or None
    with cluster_admin(arguments) as admin, _in_words():
        found = questions.describe_tokens(admin, owners)
    rows = [_row(token) for token in sorted(found, key=lambda token: (token.owner, token.issued_ms, token.token_id))]
    print_rows(rows, _COLUMNS, as_json=arguments.json, empty="no token is there that you may see")
    return 0


def _change(arguments: argparse.Namespace, act: Callable[[ClusterAdmin, bytes, int], int]) -> int:
    """Changes a token by its id: all users of the machine could see an HMAC among the arguments."""
    from moldau.client.admin import tokens as questions

    with cluster_admin(arguments) as admin, _in_words():
        known = {token.token_id: token for token in questions.describe_tokens(admin)}
        token = known.get(arguments.token_id)
        if token is None:
            raise CommandError(
                f"unknown token: {arguments.token_id}. `moldau tokens list` shows those that you may see"
            )
        expires_ms = act(admin, token.hmac, arguments.period)
    if arguments.json:
        print_json({"token_id": token.token_id, "expires": _time(expires_ms)})
    else:
        print(f"{printable(token.token_id)}: expires {_time(expires_ms)}")
    return 0


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise CommandError(str(error)) from error


def _properties(arguments: argparse.Namespace, token: DelegationToken) -> dict[str, str]:
    """The client properties for a login by the token: this command's access with another login. Paths of stores stay as
    this command has them."""
    from moldau.client.protocol.security import SASL_JAAS_CONFIG, SASL_MECHANISM, SECURITY_PROTOCOL
    from moldau.wire.protocol.jaas import SCRAM_MODULE, LoginModule, encode_jaas_config
    from moldau.wire.protocol.sasl_tokens import SCRAM_HASHES, TOKEN_EXTENSION

    security = access_of(arguments).security
    mechanism = next(reversed(SCRAM_HASHES))
    if security.login is not None and security.login.mechanism in SCRAM_HASHES:
        mechanism = security.login.mechanism
    options = {"username": token.token_id, "password": token.password, TOKEN_EXTENSION: "true"}
    return {
        SECURITY_PROTOCOL: security.protocol,
        **dict(security.tls),
        SASL_MECHANISM: mechanism,
        SASL_JAAS_CONFIG: encode_jaas_config(LoginModule(SCRAM_MODULE, options)),
    }


def _escaped(value: str) -> str:
    """Escapes a value for a properties file."""
    return re.sub(r"[\\\n\r]", lambda found: {"\\": r"\\", "\n": r"\n", "\r": r"\r"}[found[0]], value)


def _row(token: DelegationToken) -> dict[str, object]:
    return {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued": _time(token.issued_ms),
        "expires": _time(token.expires_ms),
        "max": _time(token.max_ms),
    }


def _time(time_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time_ms // 1_000))
