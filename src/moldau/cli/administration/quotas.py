"""`moldau quotas describe|alter`: limits of users, client ids and addresses."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from moldau.cli.arguments import Subparsers
from moldau.cli.cluster import add_cluster_arguments, cluster_admin, split_setting
from moldau.cli.output import CommandError, print_json, print_rows

if TYPE_CHECKING:
    from moldau.client.admin.quotas import Part

_PARTS = ("user", "client", "ip")
_KINDS = {"user": "user", "client": "client-id", "ip": "ip"}


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("quotas", help="show and change limits of users, client ids and addresses")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    describe = verbs.add_parser(
        "describe", help="show limits", examples=("moldau quotas describe", "moldau quotas describe --client spark")
    )
    _add_entity(describe)
    add_cluster_arguments(describe, describe_quotas, rights={"cluster": "describe-configs"})

    alter = verbs.add_parser(
        "alter",
        help="set or remove limits",
        description="Limits: producer_byte_rate and consumer_byte_rate (bytes a second), request_percentage, "
        "controller_mutation_rate; of an address connection_creation_rate.",
        examples=(
            "moldau quotas alter --client spark --set consumer_byte_rate=10000000",
            "moldau quotas alter --user-default --unset producer_byte_rate",
        ),
    )
    _add_entity(alter)
    alter.add_argument("--set", action="append", default=[], metavar="NAME=NUMBER", help="may be repeated")
    alter.add_argument("--unset", action="append", default=[], metavar="NAME", help="may be repeated")
    add_cluster_arguments(alter, alter_quotas, rights={"cluster": "alter-configs"})


def _add_entity(parser: argparse.ArgumentParser) -> None:
    for name, what in (("user", "this user"), ("client", "this client id"), ("ip", "this address")):
        chosen = parser.add_mutually_exclusive_group()
        chosen.add_argument(f"--{name}", metavar="NAME", help=what)
        chosen.add_argument(f"--{name}-default", action="store_true", help=f"every {name} without its own limit")


def _parts(arguments: argparse.Namespace) -> list[Part]:
    from moldau.client.admin.quotas import Part

    return [
        Part(_KINDS[name], getattr(arguments, name), is_default=getattr(arguments, f"{name}_default"))
        for name in _PARTS
        if getattr(arguments, name) is not None or getattr(arguments, f"{name}_default")
    ]


def describe_quotas(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import quotas as questions

    with cluster_admin(arguments) as admin:
        found = questions.describe_quotas(admin, _parts(arguments), strict=False)
    if arguments.json:
        print_json([{"entity": quota.entity, "limits": quota.values} for quota in found])
        return 0
    rows: list[dict[str, object]] = []
    for quota in found:
        entity = {kind: name if name is not None else "(default)" for kind, name in quota.entity.items()}
        rows += [
            {
                "user": entity.get("user"),
                "client": entity.get("client-id"),
                "ip": entity.get("ip"),
                "limit": name,
                "value": int(value) if value.is_integer() else value,
            }
            for name, value in quota.values.items()
        ]
    print_rows(rows, ["user", "client", "ip", "limit", "value"], as_json=False, empty="no limit is set")
    return 0


def alter_quotas(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import quotas as questions

    parts = _parts(arguments)
    if not parts:
        raise CommandError("name an entity: --user, --client or --ip, or --user-default and the like")
    to_set: dict[str, float] = {}
    for text in arguments.set:
        name, value = split_setting("--set", text)
        try:
            to_set[name] = float(value)
        except ValueError as error:
            raise CommandError(f"--set takes NAME=NUMBER, not {text!r}") from error
    if not to_set and not arguments.unset:
        raise CommandError("say what to change: --set or --unset")
    with cluster_admin(arguments) as admin:
        questions.alter_quotas(admin, {part.kind: part.name for part in parts}, to_set, arguments.unset)
    if arguments.json:
        print_json({"result": "altered"})
    else:
        print("altered")
    return 0
