"""`kafka-leader-election`: elects the preferred replica, or (unclean) any live replica, as leader."""

from __future__ import annotations

import json

from moldau.cli.arguments import input_path
from moldau.cli.kafka.connection import run_on_cluster
from moldau.cli.kafka.options import (
    ArgumentError,
    Arguments,
    Option,
    bootstrap_server,
    check_excluded,
    command_config,
)
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import as_java_says
from moldau.client.admin.partitions import PREFERRED, UNCLEAN, elect_leaders
from moldau.types import TopicPartition

SUMMARY = (
    "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported are "
    "preferred replicas and unclean replicas."
)

OPTIONS = (
    bootstrap_server(),
    command_config(),
    Option("admin.config", "As --command-config.", "config file", is_deprecated=True),
    Option("election-type", "PREFERRED, or UNCLEAN: records may be lost.", "type", is_required=True),
    Option("topic", "Elect a leader of one partition of this topic.", "topic"),
    Option("partition", "With --topic: the partition.", "number", kind="int"),
    Option("path-to-json-file", 'A file of partitions: {"partitions": [{"topic": "a", "partition": 0}]}', "file"),
    Option("all-topic-partitions", "Elect leaders of all partitions that need it."),
)
_CHOICES = ("topic", "all-topic-partitions", "path-to-json-file")
_TYPES = {"PREFERRED": PREFERRED, "UNCLEAN": UNCLEAN}


def run(arguments: Arguments) -> int:
    kind = _checked(arguments)
    partitions = _partitions(arguments)
    return run_on_cluster(arguments, lambda admin: _elect(admin, kind, partitions), old_config="admin.config")


def _checked(arguments: Arguments) -> str:
    """The type of election. Raises ArgumentError or UsageError."""
    check_excluded(arguments, "admin.config", "command-config")
    text = arguments.text("election-type")
    kind = (text or "").upper()
    if text is not None and kind not in _TYPES:
        raise ArgumentError(f"Cannot parse argument '{text}' of option election-type")
    missing = [name for name in ("election-type", "bootstrap-server") if not arguments.has(name)]
    if arguments.has("topic") and not arguments.has("partition"):
        missing.append("partition")
    if missing:
        raise ArgumentError(f"Missing required option(s): {', '.join(missing)}")
    if sum(arguments.has(name) for name in _CHOICES) != 1:
        raise ArgumentError(f"One and only one of the following options is required: {', '.join(_CHOICES)}")
    return kind


def _partitions(arguments: Arguments) -> list[TopicPartition] | None:
    """The partitions; None means all."""
    topic, path = arguments.text("topic"), arguments.text("path-to-json-file")
    if topic is not None:
        return [TopicPartition(topic, arguments.integer("partition") or 0)]
    return None if path is None else _read(path)


def _read(path: str) -> list[TopicPartition]:
    try:
        document = json.loads(input_path(path).read_text(encoding="utf-8"))
        found = [TopicPartition(str(row["topic"]), int(row["partition"])) for row in document["partitions"]]
    except OSError as error:
        raise ArgumentError(f"java.io.IOException: Unable to read file {path}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ArgumentError("Replica election data is empty") from error
    twice = [partition for partition in dict.fromkeys(found) if found.count(partition) > 1]
    if twice:
        listed = ", ".join(map(str, twice))
        raise ArgumentError(f"Replica election data contains duplicate partitions: [{listed}]")
    return found


def _elect(admin: ClusterAdmin, kind: str, partitions: list[TopicPartition] | None) -> None:
    """Prints the results. Raises ArgumentError with the number of partitions that could not be elected."""
    results = elect_leaders(admin, partitions, _TYPES[kind])
    elected = [partition for partition, error in results.items() if error is None]
    needless = [
        partition for partition, error in results.items() if error is not None and error.name == "ELECTION_NOT_NEEDED"
    ]
    if elected:
        print(f"Successfully completed leader election ({kind}) for partitions {_listed(elected)}")
    if needless:
        print(f"Valid replica already elected for partitions {_listed(needless)}")
    failed = {
        partition: error
        for partition, error in results.items()
        if error is not None and error.name != "ELECTION_NOT_NEEDED"
    }
    for partition, error in failed.items():
        print(f"Error completing leader election ({kind}) for partition: {partition}: {as_java_says(error)}")
    if failed:
        raise ArgumentError(f"{len(failed)} replica(s) could not be elected")


def _listed(partitions: list[TopicPartition]) -> str:
    return ", ".join(map(str, partitions))
