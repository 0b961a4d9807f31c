"""`moldau node --config FILE`: one node of a cluster, with the settings of the file only."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.arguments import Subparsers, int32
from moldau.cli.nodes.up import explained_failures, given_settings, up_alone
from moldau.cli.output import CommandError

if TYPE_CHECKING:
    from moldau.core.config.broker_settings import BrokerSettings


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "node",
        help="run one node of a cluster",
        description="Runs one node of a cluster, a broker, a controller or both, until Ctrl-C or SIGTERM. Its "
        "directory must belong to the cluster already (moldau storage format); what the file "
        "does not set has Kafka's default.",
        examples=(
            "moldau node --config node-1.properties",
            "moldau node --config node-1.properties --set log.retention.hours=24 --console-port 9080",
        ),
    )
    parser.add_argument(
        "--config", required=True, metavar="FILE", help="a properties file with Kafka's settings; - is standard input"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting by Kafka's name; may be repeated, and wins over the file",
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="the format of the log on standard error (default %(default)s)",
    )
    parser.add_argument(
        "--console-port",
        type=int32,
        metavar="PORT",
        help="serve the web console too, on this port of 127.0.0.1 (default: none)",
    )
    parser.set_defaults(run=run_one_node, in_memory=False)


def run_one_node(arguments: argparse.Namespace) -> int:
    """Exit code 0 after Ctrl-C or SIGTERM. Raises CommandError for a node that cannot start."""
    from moldau.core.config.broker_settings import parse_broker_settings
    from moldau.shell.node.log_format import start_logging

    with explained_failures():
        settings = parse_broker_settings(given_settings(arguments))
    _check_directories(arguments.config, settings)
    start_logging(arguments.log_format, names_node=True)
    wanted = argparse.Namespace(**vars(arguments), no_console=arguments.console_port is None, registry=None)
    with explained_failures(Path(settings.log_directory or "")):
        return up_alone(wanted, settings)


def _check_directories(config: str, settings: BrokerSettings) -> None:
    """Raises CommandError for an empty directory, in which `moldau up` would make a new cluster."""
    from moldau.shell.io.disk import OsDisk
    from moldau.shell.node.storage_format import META_PROPERTIES

    if not settings.log_directories:
        raise CommandError(f"{config} names no log.dirs")
    first = settings.log_directories[0]
    if not Path(first).is_dir() or not OsDisk(first).exists(META_PROPERTIES):
        raise CommandError(
            f"{first} belongs to no cluster yet: `moldau storage format --config {config} --cluster-id ID` gives it to "
            "one"
        )
