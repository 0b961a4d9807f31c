"""The JSON of `kafka-reassign-partitions`: the new replicas of partitions, and the topics to move."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from moldau.cli.arguments import input_path
from moldau.cli.kafka.options import ArgumentError
from moldau.types import TopicPartition

Replicas = tuple[int, ...]
LogDirs = dict[tuple[TopicPartition, int], str]
ANY = "any"


def read_topics(path: str) -> list[str]:
    """The topics of `--topics-to-move-json-file`. Raises ArgumentError."""
    document = _read(path)
    try:
        topics = [str(row["topic"]) for row in document["topics"]]
    except (KeyError, TypeError) as error:
        raise ArgumentError(f"{path} has no topics") from error
    twice = [topic for topic in dict.fromkeys(topics) if topics.count(topic) > 1]
    if twice:
        raise ArgumentError(f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]")
    return topics


def read_reassignment(path: str) -> tuple[dict[TopicPartition, Replicas], LogDirs]:
    """The content of `--reassignment-json-file`; log directories only if the file names one. Raises ArgumentError."""
    document = _read(path)
    wanted: dict[TopicPartition, Replicas] = {}
    log_dirs: LogDirs = {}
    twice: list[TopicPartition] = []
    try:
        rows = list(document["partitions"])
        for row in rows:
            partition = TopicPartition(str(row["topic"]), int(row["partition"]))
            replicas = tuple(int(replica) for replica in row["replicas"])
            paths = [str(one) for one in row.get("log_dirs") or [ANY] * len(replicas)]
            if partition in wanted:
                twice.append(partition)
            wanted[partition] = replicas
            if len(paths) != len(replicas):
                raise ArgumentError(
                    f"Size of replicas list {list(replicas)} is different from size of log dirs list {paths} for "
                    f"partition {partition}"
                )
            named = zip(replicas, paths, strict=True)
            log_dirs |= {(partition, replica): one for replica, one in named if one != ANY}
    except (KeyError, TypeError, ValueError) as error:
        raise ArgumentError(f"{path}: {error!r}") from error
    _check(wanted, twice)
    return wanted, log_dirs


def _check(wanted: Mapping[TopicPartition, Replicas], twice: list[TopicPartition]) -> None:
    if not wanted:
        raise ArgumentError("Partition reassignment list cannot be empty")
    if any(not replicas for replicas in wanted.values()):
        raise ArgumentError("Partition replica list cannot be empty")
    if twice:
        named = ",".join(map(str, dict.fromkeys(twice)))
        raise ArgumentError(f"Partition reassignment contains duplicate topic partitions: {named}")
    for partition, replicas in wanted.items():
        doubled = [replica for replica in dict.fromkeys(replicas) if replicas.count(replica) > 1]
        if doubled:
            entries = f"{partition} contains multiple entries for {', '.join(map(str, doubled))}"
            raise ArgumentError(f"Partition replica lists may not contain duplicate entries: {entries}")


def _read(path: str) -> dict[str, Any]:
    try:
        document = json.loads(input_path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ArgumentError(f"Unable to read file {path}") from error
    except ValueError as error:
        raise ArgumentError(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise ArgumentError("The input string is not a valid JSON")
    version = document.get("version", 1)
    if version != 1:
        raise ArgumentError(f"Not supported version field value {version}")
    return document


def written(assignment: Mapping[TopicPartition, Replicas], log_dirs: LogDirs | None = None) -> str:
    """The JSON of an assignment, in the order of the partitions."""
    known = log_dirs or {}
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas),
            "log_dirs": [known.get((partition, replica), ANY) for replica in replicas],
        }
        for partition, replicas in sorted(assignment.items(), key=lambda item: (item[0].topic, item[0].partition))
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))
