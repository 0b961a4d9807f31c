"""`moldau acls list|add|remove|explain`: lists and changes ACLs, and explains why a request is allowed or denied."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import astuple

from moldau.cli.arguments import Subparsers
from moldau.cli.cluster import add_cluster_arguments, cluster_admin
from moldau.cli.diagnosis.refusals import line_that_allows
from moldau.cli.output import CommandError, print_json, print_rows, printable
from moldau.wire.protocol.acl_words import check_operation, kind_word, operation_of, operation_word, principal_of
from moldau.wire.protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)

if TYPE_CHECKING:
    from moldau.client.admin.acls import Wanted
    from moldau.core.authorization.authorizer import Decision

_KINDS = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "transactional_id": AclResourceType.TRANSACTIONAL_ID,
    "delegation_token": AclResourceType.DELEGATION_TOKEN,
    "user": AclResourceType.USER,
}
_COLUMNS = ["principal", "permission", "operation", "resource", "name", "pattern", "host"]
_SUPER = "super users (super.users of the nodes' settings), whom ACLs do not concern, are not shown to clients"


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("acls", help="access control lists: list, add, remove, explain")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    listing = verbs.add_parser(
        "list",
        help="list ACLs",
        examples=("moldau acls list", "moldau acls list --topic orders    # all that concern this topic"),
    )
    listing.add_argument("--principal", metavar="NAME", help="only those of this principal: ann or User:ann")
    _add_resources(listing)
    listing.add_argument("--exact", action="store_true", help="only those that have just these names")
    add_cluster_arguments(listing, list_acls, rights={"cluster": "describe"})

    for verb, run, what in (("add", add_acls, "add ACLs"), ("remove", remove_acls, "remove ACLs")):
        changing = verbs.add_parser(
            verb,
            help=what,
            description="--as names the rights that a consumer, a producer, or a transactional copier needs; a copier "
            "reads --topic as --group and writes --to as --transactional-id.",
            examples=(
                f"moldau acls {verb} ann --operation read --topic orders",
                f"moldau acls {verb} ann --as consumer --topic orders --group kitchen",
                f"moldau acls {verb} etl --as copier --topic orders --group etl --to totals --transactional-id etl",
                f"moldau acls {verb} etl --operation create-tokens --user ann    # delegation tokens of ann",
            ),
        )
        changing.add_argument("principal", metavar="PRINCIPAL", help="ann or User:ann; User:* is everybody")
        changing.add_argument("--as", dest="role", choices=["consumer", "producer", "copier"], help="a set of rights")
        changing.add_argument(
            "--operation", action="append", default=[], metavar="NAME", help="read, write, ... or all; may be repeated"
        )
        _add_resources(changing)
        changing.add_argument("--to", action="append", default=[], metavar="NAME", help="with --as copier: a topic")
        changing.add_argument("--prefixed", action="store_true", help="the names are prefixes")
        changing.add_argument("--host", default=WILDCARD, metavar="ADDRESS", help="one address or network (default: *)")
        changing.add_argument("--deny", action="store_true", help="ACLs that deny, which outweigh all that allow")
        add_cluster_arguments(changing, run, rights={"cluster": "alter"})

    explaining = verbs.add_parser(
        "explain",
        help="tell whether a principal may do something, and why",
        description="Exits with 0 where it may, with 1 where it may not.",
        examples=("moldau acls explain ann read --topic orders",),
    )
    explaining.add_argument("principal", metavar="PRINCIPAL", help="ann or User:ann")
    explaining.add_argument("operation", metavar="OPERATION", help="read, write, create, describe, ...")
    _add_resources(explaining)
    explaining.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="from where (default: 127.0.0.1)")
    add_cluster_arguments(explaining, explain, rights={"cluster": "describe"})


def _add_resources(parser: argparse.ArgumentParser) -> None:
    for name, kind in _KINDS.items():
        words = name.replace("_", " ")
        is_user = kind == AclResourceType.USER
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            action="append",
            default=[],
            type=_user_name if is_user else str,
            metavar="NAME",
            help="this user, for whom tokens are made; * is all" if is_user else f"this {words}; * is all",
        )
    parser.add_argument("--cluster", action="store_true", help="the cluster")


def _user_name(text: str) -> str:
    """A user resource has the name of its principal."""
    return text if text == WILDCARD else principal_of(text)


def list_acls(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import acls as questions

    pattern = AclPatternType.ANY if arguments.exact else AclPatternType.MATCH
    who = None if arguments.principal is None else principal_of(arguments.principal)
    filters = [AclFilter(int(kind), name, int(pattern), who) for kind, name in _named(arguments)]
    with cluster_admin(arguments) as admin:
        found = [
            acl for wanted in filters or [AclFilter(principal=who)] for acl in questions.describe_acls(admin, wanted)
        ]
    _print_acls(sorted(dict.fromkeys(found)), as_json=arguments.json, empty="no ACL is there")
    return 0


def add_acls(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import acls as questions

    acls = _acls(arguments)
    with cluster_admin(arguments) as admin:
        questions.create_acls(admin, acls)
    _print_acls(acls, as_json=arguments.json, empty="nothing was added")
    return 0


def remove_acls(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import acls as questions

    filters = [AclFilter(*astuple(acl)) for acl in _acls(arguments)]
    with cluster_admin(arguments) as admin:
        gone = questions.delete_acls(admin, filters)
    if not gone:
        raise CommandError("no such ACL: `moldau acls list` shows those that are there")
    _print_acls(gone, as_json=arguments.json, empty="")
    return 0


def explain(arguments: argparse.Namespace) -> int:
    """0: allowed; 1: denied."""
    from moldau.client.admin import acls as questions
    from moldau.core.authorization.authorizer import StandardAuthorizer
    from moldau.types import Uuid

    who = principal_of(arguments.principal)
    with _as_command_errors():
        operation = operation_of(arguments.operation)
    named = _named(arguments)
    if len(named) != 1:
        raise CommandError("name one resource: --topic, --group, ... or --cluster")
    (kind, name), host = named[0], arguments.host
    with _as_command_errors():
        check_operation(kind, operation)
    with cluster_admin(arguments) as admin:
        found = questions.describe_acls(admin, AclFilter(int(kind), name, int(AclPatternType.MATCH)))
    authorizer = StandardAuthorizer()
    authorizer.change({Uuid(number.to_bytes(16, "big")): acl for number, acl in enumerate(found)})
    decision = authorizer.decide(who, host, int(operation), int(kind), name)
    what = f"{who} at {host} {'may' if decision.is_allowed else 'may not'} {operation_word(operation)} "
    sentence = what + (f"{kind_word(kind)} {name}" if kind != AclResourceType.CLUSTER else "the cluster")
    missing = [] if decision.is_allowed or decision.acl is not None else [line_that_allows(who, operation, kind, name)]
    if arguments.json:
        rule = None if decision.acl is None else _row(decision.acl)
        print_json({"allowed": decision.is_allowed, "acl": rule, "reason": decision.rule.value, "missing": missing})
    else:
        print(printable(f"{sentence}: {_reason(decision)}"))
        for line in missing:
            print(f"what allows it:\n  {printable(line)}")
        if not decision.is_allowed:
            print(f"({_SUPER})")
    return 0 if decision.is_allowed else 1


def _reason(decision: Decision) -> str:
    from moldau.core.authorization.authorizer import Rule

    if decision.acl is not None:
        return f"this ACL decides: {described(decision.acl)}"
    if decision.rule is Rule.NO_ACL_HOLDS:
        return "the resource has ACLs, and none allows this to that principal from there"
    return "no ACL is about the resource (and the nodes' allow.everyone.if.no.acl.found is false, as by default)"


def described(acl: Acl) -> str:
    """An ACL in words."""
    row = _row(acl)
    prefix = "" if acl.pattern_type == AclPatternType.LITERAL else f"{row['pattern']} "
    who = f"{row['permission']} {acl.principal} from {acl.host}"
    return f"{who} {row['operation']} on {prefix}{row['resource']} {acl.name}"


# -- words


@contextmanager
def _as_command_errors() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise CommandError(str(error)) from error


def _named(arguments: argparse.Namespace) -> list[tuple[AclResourceType, str]]:
    found = [(kind, name) for option, kind in _KINDS.items() for name in getattr(arguments, option)]
    return [*found, (AclResourceType.CLUSTER, CLUSTER_NAME)] if arguments.cluster else found


def _acls(arguments: argparse.Namespace) -> list[Acl]:
    """The ACLs that `add` and `remove` name. Raises CommandError."""
    permission = AclPermission.DENY if arguments.deny else AclPermission.ALLOW
    who = principal_of(arguments.principal)
    return [
        Acl(
            resource.resource_type,
            resource.name,
            resource.pattern_type,
            who,
            arguments.host,
            int(operation),
            int(permission),
        )
        for resource, operations in _wanted(arguments).items()
        for operation in operations
    ]


def _wanted(arguments: argparse.Namespace) -> Wanted:
    from moldau.client.admin import acls as questions
    from moldau.client.admin.acls import CLUSTER, Resource

    pattern = int(AclPatternType.PREFIXED if arguments.prefixed else AclPatternType.LITERAL)

    def resources(kind: AclResourceType, names: Sequence[str]) -> list[Resource]:
        # the wildcard is a literal name
        return [
            Resource(int(kind), name, int(AclPatternType.LITERAL) if name == WILDCARD else pattern) for name in names
        ]

    by_kind = {kind: resources(kind, getattr(arguments, option)) for option, kind in _KINDS.items()}
    topics, groups = by_kind[AclResourceType.TOPIC], by_kind[AclResourceType.GROUP]
    transactional_ids = by_kind[AclResourceType.TRANSACTIONAL_ID]
    named = [*(each for found in by_kind.values() for each in found), *([CLUSTER] if arguments.cluster else [])]
    _check_flags(arguments)
    if arguments.role == "consumer":
        return questions.consumer_needs([*topics, *groups])
    if arguments.role == "producer":
        return questions.producer_needs([*topics, *transactional_ids])
    if arguments.role == "copier":
        written = [*resources(AclResourceType.TOPIC, arguments.to), *transactional_ids]
        return questions.copier_needs([*topics, *groups], written)
    if not named or not arguments.operation:
        raise CommandError("name an operation (--operation, --as) and a resource (--topic, --group, ... or --cluster)")
    with _as_command_errors():
        operations = tuple(dict.fromkeys(map(operation_of, arguments.operation)))
        for resource in named:
            for operation in operations:
                check_operation(AclResourceType(resource.resource_type), operation)
    return dict.fromkeys(named, operations)


_NEEDED = {
    "consumer": ("topic", "group"),
    "producer": ("topic",),
    "copier": ("topic", "group", "to", "transactional_id"),
}
"""The flags that each role requires."""


def _check_flags(arguments: argparse.Namespace) -> None:
    role = arguments.role
    if role != "copier" and arguments.to:
        raise CommandError("--to belongs to --as copier")
    if role is None:
        return
    if arguments.operation:
        raise CommandError("--as names the operations itself: leave out --operation")
    lacking = [f"--{name.replace('_', '-')}" for name in _NEEDED[role] if not getattr(arguments, name)]
    if lacking:
        raise CommandError(f"--as {role} wants {' and '.join(lacking)}")
    allowed = (*_NEEDED[role], *(("transactional_id",) if role == "producer" else ()))
    beside = [name for name in (*_KINDS, "cluster") if getattr(arguments, name) and name not in allowed]
    if beside:
        raise CommandError(f"a {role} needs no --{beside[0].replace('_', '-')}")


def _row(acl: Acl) -> dict[str, object]:
    return {
        "principal": acl.principal,
        "permission": _word(AclPermission, acl.permission),
        "operation": _word(AclOperation, acl.operation),
        "resource": _word(AclResourceType, acl.resource_type),
        "name": acl.name,
        "pattern": _word(AclPatternType, acl.pattern_type),
        "host": acl.host,
    }


def _word(
    kind: type[AclPermission] | type[AclOperation] | type[AclResourceType] | type[AclPatternType], code: int
) -> str:
    """The name of a code; the number itself for a code that only a later Kafka names."""
    try:
        return kind(code).name.lower().replace("_", "-")
    except ValueError:
        return str(code)


def _print_acls(acls: Sequence[Acl], *, as_json: bool, empty: str) -> None:
    print_rows([_row(acl) for acl in acls], _COLUMNS, as_json=as_json, empty=empty)
