"""`moldau topics create|list|describe|alter|delete`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from moldau.cli.arguments import Subparsers, int16, int32
from moldau.cli.cluster import (
    add_cluster_arguments,
    add_dry_run,
    check_visible,
    cluster_admin,
    matching_names,
    name_pattern,
    refused,
    split_setting,
)
from moldau.cli.output import CommandError, print_rows

if TYPE_CHECKING:
    from moldau.client.admin.client import ClusterAdmin

EXISTS = "exists already"


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("topics", help="create, list, describe, alter and delete topics")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    _add_create(verbs)

    listing = verbs.add_parser(
        "list", help="list topics", examples=("moldau topics list", "moldau topics list 'orders.*' --json")
    )
    listing.add_argument("pattern", nargs="?", help="a regular expression for whole names; without it, all topics")
    listing.add_argument("--internal", action="store_true", help="also list internal topics such as __consumer_offsets")
    add_cluster_arguments(listing, list_topics)

    describe = verbs.add_parser(
        "describe",
        help="show partitions, leaders and offsets of topics",
        examples=("moldau topics describe orders", "moldau topics describe --regex 'orders.*' --json"),
    )
    describe.add_argument("topic", nargs="+")
    describe.add_argument("--regex", "-r", action="store_true", help="the topics are regular expressions")
    add_cluster_arguments(describe, describe_topics, rights={"topic": "describe"})

    _add_alter(verbs)

    delete = verbs.add_parser(
        "delete",
        help="delete topics and all their records",
        examples=("moldau topics delete orders", "moldau topics delete --regex 'test-.*'"),
    )
    delete.add_argument("topic", nargs="+")
    delete.add_argument("--regex", "-r", action="store_true", help="the topics are regular expressions")
    add_cluster_arguments(delete, delete_topics, rights={"topic": "delete"})


def _add_create(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    create = verbs.add_parser(
        "create",
        help="create topics",
        examples=(
            "moldau topics create orders --partitions 3",
            "moldau topics create users --config cleanup.policy=compact --if-not-exists",
        ),
    )
    create.add_argument("topic", nargs="+")
    create.add_argument(
        "--partitions", type=int32, default=-1, metavar="N", help="default: the broker's num.partitions"
    )
    create.add_argument(
        "--replication-factor",
        type=int16,
        default=-1,
        metavar="N",
        help="default: the broker's default.replication.factor",
    )
    create.add_argument(
        "--config", action="append", default=[], metavar="NAME=VALUE", help="a topic setting; may be repeated"
    )
    create.add_argument("--if-not-exists", action="store_true", help="succeed if the topic exists already")
    add_dry_run(create)
    add_cluster_arguments(create, create_topics, rights={"topic": "create"})


def _add_alter(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    alter = verbs.add_parser(
        "alter",
        help="change settings of topics, or add partitions",
        examples=(
            "moldau topics alter orders --set retention.ms=86400000",
            "moldau topics alter orders --partitions 6 --dry-run",
        ),
    )
    alter.add_argument("topic", nargs="+")
    alter.add_argument("--regex", "-r", action="store_true", help="the topics are regular expressions")
    alter.add_argument("--partitions", type=int32, metavar="N", help="the number of partitions after the change")
    alter.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting; may be repeated")
    alter.add_argument(
        "--unset", action="append", default=[], metavar="NAME", help="give a setting its default; may be repeated"
    )
    add_dry_run(alter)
    add_cluster_arguments(alter, alter_topics, rights={"topic": "alter-configs"})


def create_topics(arguments: argparse.Namespace) -> int:
    from moldau.client.admin.topics import create_topic
    from moldau.errors import KafkaError

    settings = dict(split_setting("--config", text) for text in arguments.config)
    rows: list[dict[str, object]] = []
    success = "would be created" if arguments.dry_run else "created"
    with cluster_admin(arguments) as admin:
        for topic in arguments.topic:
            result = success
            try:
                create_topic(
                    admin,
                    topic,
                    partitions=arguments.partitions,
                    replication_factor=arguments.replication_factor,
                    configs=settings,
                    validate_only=arguments.dry_run,
                )
            except KafkaError as error:
                if error.name == "NETWORK_EXCEPTION":
                    raise
                is_fine = arguments.if_not_exists and error.name == "TOPIC_ALREADY_EXISTS"
                result = EXISTS if is_fine else refused(error, arguments, topic)
            rows.append({"topic": topic, "result": result})
    return report(rows, (success, EXISTS), arguments)


def delete_topics(arguments: argparse.Namespace) -> int:
    from moldau.client.admin.topics import delete_topic
    from moldau.client.admin.topics import list_topics as known_topics
    from moldau.errors import KafkaError

    rows: list[dict[str, object]] = []
    with cluster_admin(arguments) as admin:
        known = [topic.name for topic in known_topics(admin).values() if not topic.is_internal or not arguments.regex]
        if not arguments.regex:
            check_visible(admin, arguments.topic, known)
        names = matching_names(arguments.topic, known, is_regex=arguments.regex, what="topic")
        for name in names:
            try:
                delete_topic(admin, name)
                rows.append({"topic": name, "result": "deleted"})
            except KafkaError as error:
                rows.append({"topic": name, "result": refused(error, arguments, name)})
    return report(rows, "deleted", arguments)


def alter_topics(arguments: argparse.Namespace) -> int:
    from moldau.client.admin.configs import TOPIC, alter_configs, as_changes
    from moldau.client.admin.topics import create_partitions
    from moldau.client.admin.topics import list_topics as known_topics
    from moldau.errors import KafkaError

    changes = as_changes(dict(split_setting("--set", text) for text in arguments.set), arguments.unset)
    if not changes and arguments.partitions is None:
        raise CommandError("say what to change: --partitions, --set or --unset")
    rows: list[dict[str, object]] = []
    success = "would be altered" if arguments.dry_run else "altered"
    with cluster_admin(arguments) as admin:
        known = list(known_topics(admin))
        if not arguments.regex:
            check_visible(admin, arguments.topic, known)
        names = matching_names(arguments.topic, known, is_regex=arguments.regex, what="topic")
        for name in names:
            result = success
            try:
                if changes:
                    alter_configs(admin, TOPIC, name, changes, validate_only=arguments.dry_run)
                if arguments.partitions is not None:
                    create_partitions(admin, name, arguments.partitions, validate_only=arguments.dry_run)
            except KafkaError as error:
                result = refused(error, arguments, name)
            rows.append({"topic": name, "result": result})
    return report(rows, success, arguments)


def list_topics(arguments: argparse.Namespace) -> int:
    from moldau.client.admin.topics import list_topics as known_topics

    pattern = name_pattern(arguments.pattern or ".*")
    with cluster_admin(arguments) as admin:
        topics = known_topics(admin)
    rows = [
        {"topic": name, "partitions": len(topic.partitions), "replication_factor": topic.replication_factor}
        for name, topic in topics.items()
        if pattern.fullmatch(name) and (arguments.internal or not topic.is_internal)
    ]
    print_rows(
        rows,
        ["topic", "partitions", "replication_factor"],
        as_json=arguments.json,
        empty=f"no topic matches {arguments.pattern}" if arguments.pattern else "no topics yet",
    )
    return 0


def describe_topics(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import offsets
    from moldau.client.admin.topics import list_topics as known_topics
    from moldau.client.protocol.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
    from moldau.types import TopicPartition

    with cluster_admin(arguments) as admin:
        topics = known_topics(admin)
        if not arguments.regex:
            check_visible(admin, arguments.topic, topics)
        names = matching_names(arguments.topic, list(topics), is_regex=arguments.regex, what="topic")
        keys = [TopicPartition(name, row.index) for name in names for row in topics[name].partitions]
        starts, ends = offsets.of_led(admin, keys, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
    rows: list[dict[str, object]] = []
    for name in names:
        for row in topics[name].partitions:
            key = TopicPartition(name, row.index)
            rows.append(
                {
                    "topic": name,
                    "partition": row.index,
                    "leader": row.leader_id,
                    "replicas": list(row.replicas),
                    "isr": list(row.isr),
                    "start_offset": starts.get(key),
                    "end_offset": ends.get(key),
                }
            )
    columns = ["topic", "partition", "leader", "replicas", "isr", "start_offset", "end_offset"]
    print_rows(rows, columns, as_json=arguments.json)
    return 0


def partition_names(admin: ClusterAdmin) -> dict[str, list[int]]:
    """The partitions of every topic."""
    from moldau.client.admin.topics import list_topics as known_topics

    return {name: [row.index for row in topic.partitions] for name, topic in known_topics(admin).items()}


def report(
    rows: list[dict[str, object]],
    success: str | tuple[str, ...],
    arguments: argparse.Namespace,
    subject: str = "topic",
) -> int:
    """Prints `name: result` lines; returns 1 if any result is not in `success`."""
    successes = (success,) if isinstance(success, str) else success
    failed = [row for row in rows if row["result"] not in successes]
    if arguments.json:
        print_rows(rows, [subject, "result"], as_json=True)
    else:
        for row in rows:
            print(f"{row[subject]}: {row['result']}", file=sys.stderr if row in failed else sys.stdout)
    return 1 if failed else 0
