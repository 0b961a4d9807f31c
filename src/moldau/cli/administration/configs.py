"""`moldau configs list|describe|alter`: settings of topics, brokers and groups."""

from __future__ import annotations

import argparse
from typing import Final

from moldau.cli.arguments import Subparsers
from moldau.cli.cluster import add_cluster_arguments, add_dry_run, cluster_admin, known_topic, split_setting
from moldau.cli.output import CommandError, print_rows

_KINDS: Final[dict[str, int]] = {"topic": 2, "broker": 4, "client-metrics": 16, "group": 32}
DEFAULT_NAME: Final = "default"
_DEFAULT_CONFIG: Final = 5


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("configs", help="settings of topics, brokers and groups")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    listing = verbs.add_parser(
        "list",
        help="list the topics, brokers and groups whose settings can be read",
        examples=("moldau configs list", "moldau configs list broker"),
    )
    listing.add_argument("kind", choices=_KINDS, nargs="?", help="without it, all kinds")
    add_cluster_arguments(listing, list_resources)

    describe = verbs.add_parser(
        "describe",
        help="show the settings that were changed, and where each comes from",
        examples=("moldau configs describe topic orders", "moldau configs describe broker 1 --all"),
    )
    _add_resource(describe)
    describe.add_argument("--all", "-a", action="store_true", help="also show settings that have their default")
    add_cluster_arguments(describe, describe_configs, rights=dict.fromkeys(("topic", "cluster"), "describe-configs"))

    alter = verbs.add_parser(
        "alter",
        help="change settings, at once and beyond a restart",
        description="Changes settings. A change takes effect at once and stays after a restart.",
        examples=(
            "moldau configs alter topic orders --set retention.ms=86400000",
            "moldau configs alter broker default --unset log.cleaner.threads --dry-run",
        ),
    )
    _add_resource(alter)
    alter.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting; may be repeated")
    alter.add_argument(
        "--unset", action="append", default=[], metavar="NAME", help="give a setting its default; may be repeated"
    )
    alter.add_argument("--append", action="append", default=[], metavar="NAME=VALUE", help="add to a list")
    alter.add_argument("--subtract", action="append", default=[], metavar="NAME=VALUE", help="remove from a list")
    add_dry_run(alter)
    add_cluster_arguments(alter, alter_configs, rights=dict.fromkeys(("topic", "cluster"), "alter-configs"))


def _add_resource(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=_KINDS)
    parser.add_argument("name", help="of the topic or group; of a broker its id, or `default` for all brokers")


def _name(arguments: argparse.Namespace) -> str:
    name = str(arguments.name)
    if arguments.kind == "broker":
        if name == DEFAULT_NAME:
            return ""
        if not name.isdigit():
            raise CommandError(f"a broker has a number (or `{DEFAULT_NAME}`), not {name!r}")
    return name


def list_resources(arguments: argparse.Namespace) -> int:
    from moldau.client.admin.configs import list_config_resources

    kinds = {number: kind for kind, number in _KINDS.items()}
    chosen = [_KINDS[arguments.kind]] if arguments.kind else list(kinds)
    with cluster_admin(arguments) as admin:
        found = sorted(list_config_resources(admin, chosen))
    rows: list[dict[str, object]] = [
        {"kind": kinds[kind], "name": name or DEFAULT_NAME} for kind, name in found if kind in kinds
    ]
    print_rows(rows, ["kind", "name"], as_json=arguments.json)
    return 0


def describe_configs(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import configs as questions

    name = _name(arguments)
    with cluster_admin(arguments) as admin, known_topic(admin, name):
        found = questions.describe_configs(admin, _KINDS[arguments.kind], [name]).get(name, ())
    rows: list[dict[str, object]] = [
        {
            "setting": setting.name,
            "value": setting.value if not setting.is_sensitive else "(hidden)",
            "from": questions.SOURCES.get(setting.config_source, "UNKNOWN").lower(),
            "read_only": setting.read_only,
        }
        for setting in sorted(found, key=lambda setting: setting.name)
        if arguments.all or setting.config_source != _DEFAULT_CONFIG
    ]
    empty = "all settings have their defaults: --all shows them"
    print_rows(rows, ["setting", "value", "from"], as_json=arguments.json, empty=empty)
    return 0


def alter_configs(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import configs as questions

    changes: list[questions.Change] = [(questions.DELETE, name, None) for name in arguments.unset]
    for operation, option in (
        (questions.SET, "set"),
        (questions.APPEND, "append"),
        (questions.SUBTRACT, "subtract"),
    ):
        for text in getattr(arguments, option):
            name, value = split_setting(f"--{option}", text)
            changes.append((operation, name, value))
    if not changes:
        raise CommandError("say what to change: --set, --unset, --append or --subtract")
    with cluster_admin(arguments) as admin:
        questions.alter_configs(
            admin, _KINDS[arguments.kind], _name(arguments), changes, validate_only=arguments.dry_run
        )
    result = "would be altered" if arguments.dry_run else "altered"
    if arguments.json:
        print_rows([{"kind": arguments.kind, "name": arguments.name, "result": result}], [], as_json=True)
    else:
        print(f"{arguments.kind} {arguments.name}: {result}")
    return 0
