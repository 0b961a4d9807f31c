"""Moves of replicas between log directories of one broker, for `kafka-reassign-partitions`."""

from __future__ import annotations

import time
from collections.abc import Iterable

from moldau.cli.kafka.options import ArgumentError
from moldau.cli.kafka.reassignment_files import LogDirs
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.partitions import describe_log_dirs
from moldau.client.admin.reassignments import move_to_log_dirs
from moldau.errors import ERROR_CODES
from moldau.types import TopicPartition

DEFAULT_TIMEOUT_MS = 10_000
RETRY_S = 0.1
REPLICA_NOT_AVAILABLE = ERROR_CODES["REPLICA_NOT_AVAILABLE"]

Replica = tuple[TopicPartition, int]
"""A partition, and the broker that holds it."""
Place = tuple[str | None, str | None]
"""The log directory of a replica, and the target of its move."""


def places(admin: ClusterAdmin, replicas: Iterable[Replica]) -> dict[Replica, Place]:
    """The place of each replica."""
    ordered = sorted(replicas, key=lambda replica: (replica[1], replica[0].topic, replica[0].partition))
    now: LogDirs = {}
    future: LogDirs = {}
    for broker in dict.fromkeys(broker for _, broker in ordered):
        own = [partition for partition, each in ordered if each == broker]
        for directory in describe_log_dirs(admin, broker, own):
            for row in directory.replicas:
                (future if row.is_future else now)[row.partition, broker] = directory.path
    return {replica: (now.get(replica), future.get(replica)) for replica in ordered}


def is_under_way(place: Place) -> bool:
    """Whether the replica moves, or lies on a lost disk."""
    now, future = place
    return now is None or future is not None


def standing(replica: Replica, place: Place, wanted: str) -> str:
    """The progress of the move to the directory `wanted`, in the words of Kafka's tool."""
    (partition, broker), (now, future) = replica, place
    if now is None:
        return (
            f"Partition {partition} is not found in any live log dir on broker {broker}. "
            "There is likely an offline log directory on the broker."
        )
    if future is not None and future == wanted:
        return f"Reassignment of replica {partition}-{broker} is still in progress."
    if future is not None:
        return f"Partition {partition} on broker {broker} is being moved to log dir {future} instead of {wanted}."
    if now != wanted:
        return f"Partition {partition} on broker {broker} is not being moved from log dir {now} to {wanted}."
    return f"Reassignment of replica {partition}-{broker} completed successfully."


def move_replicas(admin: ClusterAdmin, log_dirs: LogDirs, timeout_ms: int) -> None:
    """Starts the moves. Retries, because a replica that is new on its broker can move to a directory only once it
    exists there. Raises ArgumentError for a replica that cannot move or does not exist in time."""
    pending, end_s = dict(log_dirs), time.monotonic() + timeout_ms / 1_000
    while pending:
        for partition, broker in _begun_moves(admin, pending):
            topic, path = partition.topic, pending.pop((partition, broker))
            print(
                f"Successfully started moving log directory to {path} for replica {topic}-{partition.partition} with "
                f"broker {broker} "
            )
        if pending and time.monotonic() >= end_s:
            waiting = ",".join(sorted(f"{partition}-{broker}" for partition, broker in pending))
            raise ArgumentError(f"Timed out before log directory move{plural(pending)} could be started for: {waiting}")
        if pending:
            time.sleep(RETRY_S)


def _begun_moves(admin: ClusterAdmin, pending: LogDirs) -> list[tuple[TopicPartition, int]]:
    """Requests the moves of `pending`; returns those that their broker accepts. Raises ArgumentError for a permanent
    failure."""
    begun = []
    for broker in sorted({broker for _, broker in pending}):
        own = {partition: path for (partition, replica), path in pending.items() if replica == broker}
        for partition, error in move_to_log_dirs(admin, broker, own).items():
            if error is None:
                begun.append((partition, broker))
            elif error.code != REPLICA_NOT_AVAILABLE:
                raise ArgumentError(f"Failed to alter dir for {partition}-{broker}")
    return begun


def plural(things: Iterable[object]) -> str:
    return "s" if len(list(things)) > 1 else ""
