"""`kafka-get-offsets`: latest and earliest offsets of partitions, and offsets by timestamp."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from moldau.cli.kafka.connection import open_admin
from moldau.cli.kafka.options import (
    ArgumentError,
    Arguments,
    Option,
    bootstrap_server,
    check_required,
    command_config,
    is_number,
    split_list,
)
from moldau.cli.kafka.topics import topic_pattern
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import as_java_says, error_of
from moldau.client.admin.offsets import each_at_time
from moldau.client.admin.topics import TopicDescription, list_topics
from moldau.errors import KafkaError
from moldau.types import TopicPartition

SUMMARY = "An interactive shell for getting topic-partition offsets."

OPTIONS = (
    bootstrap_server(),
    command_config(),
    Option(
        "topic-partitions", "Topics, each with :0 or :0-3 or :5- or :-3 for some partitions.", "topic1:1,topic2:0-3"
    ),
    Option("topic", "The topic, a regular expression.", "topic"),
    Option("partitions", "These partitions only.", "partition ids"),
    Option(
        "time",
        "-1 or latest, -2 or earliest, -3 or max-timestamp, -4 or earliest-local, -5 or latest-tiered, -6 or "
        "earliest-pending-upload, or milliseconds since 1970.",
        "timestamp",
        default="latest",
    ),
    Option("exclude-internal-topics", "Leave out the topics of the broker itself."),
)

_TIMES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|([0-9]*)-([0-9]*)))?")

Filter = Callable[[TopicPartition], bool]


def run(arguments: Arguments) -> int:
    check_required(arguments, "bootstrap-server")
    try:
        timestamp = parse_time(arguments.required("time"))
        is_wanted = make_filter(arguments)
        with open_admin(arguments) as admin:
            print_offsets(admin, matching(list_topics(admin), is_wanted, arguments), timestamp)
    except (KafkaError, ArgumentError) as error:
        print(f"Error occurred: {error}", file=sys.stderr)
        return 1
    return 0


def parse_time(text: str) -> int:
    if text in _TIMES:
        return _TIMES[text]
    if is_number(text, 63):
        return int(text)
    names = " / ".join(f"{number} or {name}" for name, number in _TIMES.items())
    raise ArgumentError(f"Malformed time argument {text}. Please use {names}, or a specified long format timestamp")


def make_filter(arguments: Arguments) -> Filter:
    rules = arguments.text("topic-partitions")
    if rules is not None:
        if arguments.has("topic", "partitions"):
            raise ArgumentError("--topic-partitions cannot be used with --topic or --partitions")
        filters = [parse_rule(rule) for rule in split_list(rules)]
        return lambda partition: any(is_wanted(partition) for is_wanted in filters)
    pattern = topic_pattern(arguments.text("topic"))
    text = arguments.text("partitions") or None
    words = None if text is None else split_list(text)
    if words is not None and not all(is_number(word, 31) for word in words):
        raise ArgumentError(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {text}"
        )
    numbers = None if words is None else [int(word) for word in words]
    return lambda partition: (
        (pattern is None or pattern.fullmatch(partition.topic) is not None)
        and (numbers is None or partition.partition in numbers)
    )


def parse_rule(text: str) -> Filter:
    """A rule: `topic`, `topic:0`, `topic:0-3` (3 is excluded), `topic:5-`, `topic:-3`, each also without its topic."""
    found = _RULE.fullmatch(text)
    if found is None:
        raise ArgumentError(f"org.apache.kafka.tools.TerseException: Invalid rule specification: {text}")
    topic, single, first, end = found.groups()
    for number in (single, first, end):
        if number and not is_number(number, 31):
            raise ArgumentError(f'For input string: "{number}"')
    pattern = topic_pattern(topic or None)
    low = int(single or first or 0)
    high = int(single) + 1 if single else int(end) if end else sys.maxsize
    return lambda partition: (
        (pattern is None or pattern.fullmatch(partition.topic) is not None) and low <= partition.partition < high
    )


def matching(topics: dict[str, TopicDescription], is_wanted: Filter, arguments: Arguments) -> list[TopicPartition]:
    excluded = arguments.has("exclude-internal-topics")
    found = [
        TopicPartition(topic.name, row.index)
        for topic in topics.values()
        if not (excluded and topic.is_internal)
        for row in topic.partitions
        if is_wanted(TopicPartition(topic.name, row.index))
    ]
    if not found:
        raise ArgumentError("Could not match any topic-partitions with the specified filters")
    # partition 10 comes before 2, as in Kafka's tool
    return sorted(found, key=str)


def print_offsets(admin: ClusterAdmin, partitions: list[TopicPartition], timestamp: int) -> None:
    found = each_at_time(admin, partitions, timestamp)
    for partition, offset in found.items():
        if isinstance(offset, KafkaError):
            told = as_java_says(error_of(offset.code))
            print(f"Skip getting offsets for topic-partition {partition} due to error: {told}", file=sys.stderr)
    for partition, offset in found.items():
        if not isinstance(offset, KafkaError) and offset >= 0:
            print(f"{partition.topic}:{partition.partition}:{offset}")
