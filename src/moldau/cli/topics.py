"""`moldau topics create|list|describe|delete`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from moldau.cli.arguments import Subparsers
from moldau.cli.cluster import TIMEOUT_S, add_cluster_arguments, explained, open_admin, results_of
from moldau.cli.output import CommandError, print_rows

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("topics", help="create, list, describe and delete topics")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    create = verbs.add_parser("create", help="create a topic")
    create.add_argument("topic", nargs="+")
    create.add_argument("--partitions", type=int, default=-1, help="default: the broker's num.partitions")
    create.add_argument("--replication-factor", type=int, default=-1, help="default: the broker's")
    create.add_argument(
        "--config", action="append", default=[], metavar="NAME=VALUE", help="a topic setting; may be repeated"
    )
    create.add_argument("--if-not-exists", action="store_true", help="succeed if the topic is there")
    add_cluster_arguments(create)
    create.set_defaults(run=create_topics)

    listing = verbs.add_parser("list", help="list topics")
    listing.add_argument("--internal", action="store_true", help="also those of the broker itself")
    add_cluster_arguments(listing)
    listing.set_defaults(run=list_topics)

    describe = verbs.add_parser("describe", help="partitions, leaders and offsets of topics")
    describe.add_argument("topic", nargs="+")
    add_cluster_arguments(describe)
    describe.set_defaults(run=describe_topics)

    delete = verbs.add_parser("delete", help="delete topics and all their records")
    delete.add_argument("topic", nargs="+")
    add_cluster_arguments(delete)
    delete.set_defaults(run=delete_topics)


def create_topics(arguments: argparse.Namespace) -> int:
    from confluent_kafka.admin import NewTopic

    settings = dict(_split_setting(text) for text in arguments.config)
    topics = [
        NewTopic(
            topic,
            num_partitions=arguments.partitions,
            replication_factor=arguments.replication_factor,
            config=settings,
        )
        for topic in arguments.topic
    ]
    rows: list[dict[str, object]] = []
    known_ones_are_fine = arguments.if_not_exists

    def describe(topic: str, _: object, error: str | None) -> None:
        if error and known_ones_are_fine and "already exists" in error:
            error = None
        rows.append({"topic": topic, "result": error or "created"})

    with explained(arguments):
        admin = open_admin(arguments)  # kept until the answers are in: they end with it
        results_of(admin.create_topics(topics, request_timeout=TIMEOUT_S), describe)
    return _report(rows, "created", arguments)


def delete_topics(arguments: argparse.Namespace) -> int:
    rows: list[dict[str, object]] = []
    with explained(arguments):
        admin = open_admin(arguments)
        results_of(
            admin.delete_topics(arguments.topic, request_timeout=TIMEOUT_S),
            lambda topic, _, error: rows.append({"topic": topic, "result": error or "deleted"}),
        )
    return _report(rows, "deleted", arguments)


def list_topics(arguments: argparse.Namespace) -> int:
    with explained(arguments):
        metadata = open_admin(arguments).list_topics(timeout=TIMEOUT_S)
    rows = [
        {
            "topic": name,
            "partitions": len(topic.partitions),
            "replication_factor": max((len(p.replicas) for p in topic.partitions.values()), default=0),
        }
        for name, topic in sorted(metadata.topics.items())
        if arguments.internal or not name.startswith("__")
    ]
    print_rows(
        rows, ["topic", "partitions", "replication_factor"], as_json=arguments.json, empty="there are no topics yet"
    )
    return 0


def describe_topics(arguments: argparse.Namespace) -> int:
    with explained(arguments):
        admin = open_admin(arguments)
        metadata = admin.list_topics(timeout=TIMEOUT_S)
        unknown = [topic for topic in arguments.topic if topic not in metadata.topics]
        if unknown:
            raise CommandError(f"unknown topic: {', '.join(unknown)}")
        keys = [(topic, p) for topic in arguments.topic for p in sorted(metadata.topics[topic].partitions)]
        starts = read_offsets(admin, keys, "earliest")
        ends = read_offsets(admin, keys, "latest")
    rows: list[dict[str, object]] = []
    for topic, number in keys:
        partition = metadata.topics[topic].partitions[number]
        rows.append(
            {
                "topic": topic,
                "partition": number,
                "leader": partition.leader,
                "replicas": list(partition.replicas),
                "isr": list(partition.isrs),
                "start_offset": starts.get((topic, number)),
                "end_offset": ends.get((topic, number)),
            }
        )
    columns = ["topic", "partition", "leader", "replicas", "isr", "start_offset", "end_offset"]
    print_rows(rows, columns, as_json=arguments.json)
    return 0


def read_offsets(admin: AdminClient, partitions: list[tuple[str, int]], which: str) -> dict[tuple[str, int], int]:
    """The earliest or latest offset of each partition; one that cannot be asked is left out."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    spec = OffsetSpec.earliest() if which == "earliest" else OffsetSpec.latest()
    if not partitions:
        return {}
    futures = admin.list_offsets(
        {TopicPartition(topic, number): spec for topic, number in partitions}, request_timeout=TIMEOUT_S
    )
    found: dict[tuple[str, int], int] = {}

    def keep(partition: Any, result: Any, error: str | None) -> None:
        if error is None:
            found[(partition.topic, partition.partition)] = result.offset

    results_of(futures, keep)
    return found


def _split_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandError(f"--config takes NAME=VALUE, not {text!r}")
    return name, value


def _report(rows: list[dict[str, object]], success: str, arguments: argparse.Namespace) -> int:
    failed = [row for row in rows if row["result"] != success]
    if arguments.json:
        print_rows(rows, ["topic", "result"], as_json=True)
    else:
        for row in rows:
            print(f"{row['topic']}: {row['result']}", file=sys.stderr if row in failed else sys.stdout)
    return 1 if failed else 0
