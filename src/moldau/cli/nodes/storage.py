"""`moldau storage format|info`: formats the directories of a node, and describes them."""

from __future__ import annotations

import argparse
from pathlib import Path

from moldau.cli.arguments import Subparsers
from moldau.cli.output import CommandError, print_rows


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("storage", help="format the directories of a node, and describe them")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    format_ = verbs.add_parser(
        "format",
        help="give the directories of a node to a cluster, before its first start",
        description="Gives all of log.dirs to a cluster, before the first start of the node. Directories that belong "
        "to one already are left as they are with --ignore-formatted, and refused without it.",
        examples=(
            "moldau storage format --config node-1.properties --standalone    # a new cluster, of this node alone",
            "moldau storage format --config node-2.properties --cluster-id ID --no-initial-controllers",
            "moldau storage format --config node-1.properties --cluster-id ID --initial-controllers "
            "1@host1:9093:DIRECTORY,2@host2:9093:DIRECTORY",
        ),
    )
    format_.add_argument("-c", "--config", required=True, metavar="FILE", help="the settings of the node")
    format_.add_argument(
        "-t",
        "--cluster-id",
        metavar="ID",
        help="the cluster; with --standalone a new one is made up where none is given",
    )
    who = format_.add_mutually_exclusive_group()
    who.add_argument("-s", "--standalone", action="store_true", help="this node alone is the first controller")
    who.add_argument(
        "-N", "--no-initial-controllers", action="store_true", help="the node joins controllers that are there already"
    )
    who.add_argument(
        "-I",
        "--initial-controllers",
        metavar="LIST",
        help="the first controllers, the same for all nodes: id@host:port:directory, separated by commas",
    )
    format_.add_argument("-g", "--ignore-formatted", action="store_true", help="leave formatted directories unchanged")
    format_.add_argument(
        "-r", "--release-version", metavar="NAME", help="the release of Kafka whose feature levels the cluster gets"
    )
    format_.add_argument(
        "-f",
        "--feature",
        action="append",
        default=[],
        metavar="NAME=LEVEL",
        help="the level of one feature; may be repeated",
    )
    format_.add_argument(
        "-S",
        "--add-scram",
        action="append",
        default=[],
        metavar="CREDENTIAL",
        help="a credential: SCRAM-SHA-256=[name=alice,password=secret]; may be repeated",
    )
    format_.set_defaults(run=format_directories)

    info = verbs.add_parser(
        "info",
        help="show to which node and cluster directories belong",
        examples=("moldau storage info --config node-1.properties",),
    )
    info.add_argument("-c", "--config", required=True, metavar="FILE", help="the settings of the node")
    info.add_argument("--json", action="store_true", help="print JSON")
    info.set_defaults(run=tell_directories)


def format_directories(arguments: argparse.Namespace) -> int:
    """As `kafka-storage format` does. Raises CommandError."""
    from moldau.cli.kafka import storage
    from moldau.cli.kafka.options import ArgumentError, Arguments
    from moldau.core.metadata.random_uuid import random_uuid
    from moldau.errors import MoldauError
    from moldau.shell.io.random import SystemRandom
    from moldau.types import uuid_to_text

    cluster_id = arguments.cluster_id
    if cluster_id is None and not arguments.standalone:
        raise CommandError("--cluster-id is needed: all nodes of a cluster have the same")
    given: list[tuple[str, str | None]] = [("config", arguments.config)]
    for name in ("standalone", "no-initial-controllers", "ignore-formatted"):
        given += [(name, None)] if getattr(arguments, name.replace("-", "_")) else []
    for name in ("initial-controllers", "release-version"):
        text = getattr(arguments, name.replace("-", "_"))
        given += [] if text is None else [(name, text)]
    given += [("feature", text) for text in arguments.feature]
    given += [("add-scram", text) for text in arguments.add_scram]
    try:
        if cluster_id is None:
            cluster_id = _known_cluster(arguments.config) or uuid_to_text(random_uuid(SystemRandom()))
        storage.format_node(Arguments(storage.OPTIONS, [*given, ("cluster-id", cluster_id)]))
    except (ArgumentError, MoldauError) as error:
        raise CommandError(str(error)) from error
    print(f"cluster id: {cluster_id}")
    return 0


def _known_cluster(config: str) -> str | None:
    """The cluster id in the first formatted directory of the node: with --ignore-formatted the others join that
    cluster."""
    from moldau.cli.kafka.storage import read_settings
    from moldau.shell.io.disk import OsDisk
    from moldau.shell.node.storage_format import read_meta_properties

    for path in read_settings(config).log_directories:
        found = read_meta_properties(OsDisk(path)) if Path(path).is_dir() else None
        if found is not None:
            return found.cluster_id
    return None


def tell_directories(arguments: argparse.Namespace) -> int:
    """Exit code 1 if a directory is absent or belongs to no cluster. Raises CommandError."""
    from moldau.cli.kafka.options import ArgumentError
    from moldau.cli.kafka.storage import read_settings
    from moldau.errors import MoldauError
    from moldau.shell.io.disk import OsDisk
    from moldau.shell.node.storage_format import read_meta_properties
    from moldau.types import uuid_to_text

    rows: list[dict[str, object]] = []
    try:
        for path in read_settings(arguments.config).log_directories:
            row: dict[str, object] = {"path": path, "state": "absent", "node": None, "cluster": None, "directory": None}
            rows.append(row)
            if not Path(path).is_dir():
                continue
            found = read_meta_properties(OsDisk(path))
            row["state"] = "not formatted"
            if found is not None:
                directory_id = uuid_to_text(found.directory_id)
                row |= {"state": "formatted", "node": found.node_id, "cluster": found.cluster_id}
                row["directory"] = directory_id
    except (ArgumentError, MoldauError) as error:
        raise CommandError(str(error)) from error
    print_rows(rows, ("path", "state", "node", "cluster", "directory"), as_json=arguments.json)
    return 0 if all(row["state"] == "formatted" for row in rows) else 1
