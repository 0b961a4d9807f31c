"""`moldau connect plugins` and `moldau connect validate`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from moldau.cli.arguments import Subparsers
from moldau.cli.connect.calls import add_url_arguments, call
from moldau.cli.connect.files import read_connector
from moldau.cli.output import CommandError, print_json, print_rows


def add_verbs(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    plugins = verbs.add_parser(
        "plugins",
        help="the installed connectors, or the settings of one",
        examples=("moldau connect plugins", "moldau connect plugins FileStreamSource"),
    )
    plugins.add_argument("plugin", nargs="?", metavar="CLASS", help="show its settings")
    plugins.add_argument("--all", action="store_true", help="converters, transforms and predicates, too")
    add_url_arguments(plugins)
    plugins.set_defaults(run=show_plugins)
    validate = verbs.add_parser(
        "validate",
        help="check the configuration of a connector; creates nothing",
        examples=("moldau connect validate orders.json",),
    )
    validate.add_argument("file", metavar="FILE", help="JSON (.json, or - for standard input) or properties")
    add_url_arguments(validate)
    validate.set_defaults(run=validate_connector)


def show_plugins(arguments: argparse.Namespace) -> int:
    if arguments.plugin is None:
        only = str(not arguments.all).lower()
        found = call(arguments, "GET", "connector-plugins", query=f"connectorsOnly={only}")
        print_rows(found, ("class", "type", "version"), as_json=arguments.json, empty="no plugins")
    else:
        found = call(arguments, "GET", "connector-plugins", arguments.plugin, "config")
        rows = [{**one, "default": "(required)" if one["required"] else one["default_value"]} for one in found]
        print_rows(rows, ("name", "type", "default", "documentation"), as_json=arguments.json, empty="no settings")
    return 0


def validate_connector(arguments: argparse.Namespace) -> int:
    """1 for a configuration with errors."""
    connector = read_connector(arguments.file)
    config = {**connector["config"], "name": connector["name"]}
    plugin = config.get("connector.class")
    if not plugin:
        raise CommandError(f"{arguments.file}: the connector has no connector.class")
    found = call(arguments, "PUT", "connector-plugins", plugin, "config", "validate", body=config)
    if arguments.json:
        print_json(found)
    else:
        _print_errors(found)
    return 1 if found["error_count"] else 0


def _print_errors(found: dict[str, Any]) -> None:
    values = [one["value"] for one in found["configs"] if one["value"]["errors"]]
    rows = [{"setting": one["name"], "error": error} for one in values for error in one["errors"]]
    if rows:
        print_rows(rows, ("setting", "error"), as_json=False)
    else:
        print("no errors", file=sys.stderr)
