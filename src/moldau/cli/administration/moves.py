"""Moves replicas to other brokers: prints the plan, and with `--execute` carries it out."""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from moldau.cli.arguments import int64
from moldau.cli.output import CommandError, print_rows
from moldau.types import counted

if TYPE_CHECKING:
    from moldau.client.admin.client import ClusterAdmin
    from moldau.client.admin.partitions import Reassignment
    from moldau.client.admin.reassignments import Replicas
    from moldau.client.admin.topics import PartitionDescription
    from moldau.types import TopicPartition

POLL_MS = 1_000


def add_move_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--execute", action="store_true", help="move them, instead of showing it")
    parser.add_argument("--throttle", type=int64, metavar="BYTES", help="bytes a second that a broker copies at most")


def all_partitions(admin: ClusterAdmin) -> dict[TopicPartition, PartitionDescription]:
    from moldau.client.admin.topics import list_topics
    from moldau.types import TopicPartition

    return {
        TopicPartition(name, row.index): row for name, topic in list_topics(admin).items() for row in topic.partitions
    }


def replicas_of_all(admin: ClusterAdmin) -> dict[TopicPartition, Replicas]:
    """The replicas of each partition; for a partition that is being reassigned, its target replicas."""
    from moldau.client.admin.partitions import list_reassignments

    found = {partition: row.replicas for partition, row in all_partitions(admin).items()}
    return found | {partition: row.wanted for partition, row in list_reassignments(admin).items()}


def move(
    admin: ClusterAdmin,
    current: Mapping[TopicPartition, Replicas],
    wanted: Mapping[TopicPartition, Replicas],
    arguments: argparse.Namespace,
    *,
    empty: str,
) -> bool:
    """Prints the moves, or `empty`; with `--execute` makes them and waits. Returns whether they were made. Raises
    CommandError."""
    rows: list[dict[str, object]] = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(current[partition]),
            "will_be": list(replicas),
        }
        for partition, replicas in wanted.items()
    ]
    print_rows(rows, ("topic", "partition", "replicas", "will_be"), as_json=False, empty=empty)
    if wanted and not arguments.execute:
        print("nothing was changed: --execute does it")
    if not wanted or not arguments.execute:
        return False
    _make(admin, {partition: current[partition] for partition in wanted}, wanted, arguments.throttle)
    return True


def _make(
    admin: ClusterAdmin,
    current: Mapping[TopicPartition, Replicas],
    wanted: Mapping[TopicPartition, Replicas],
    bytes_per_s: int | None,
) -> None:
    """Returns when all replicas have moved and no throttle is left. Raises CommandError."""
    from moldau.client.admin.reassignments import end_throttles, reassign, throttle

    if bytes_per_s is not None:
        throttle(admin, current, wanted, bytes_per_s)
    try:
        for partition, error in reassign(admin, {**wanted}).items():
            if error is not None:
                raise CommandError(f"{partition}: {error}")
        wait_until_moved(admin, wanted)
    finally:
        if bytes_per_s is not None:
            brokers = {broker for replicas in (*current.values(), *wanted.values()) for broker in replicas}
            end_throttles(admin, sorted(brokers), dict.fromkeys(partition.topic for partition in wanted))


def see_through(
    admin: ClusterAdmin,
    going: Mapping[TopicPartition, Reassignment],
    arguments: argparse.Namespace,
    where: str = "",
) -> None:
    """Says how many partitions of `going`, moves that an interrupted command began, still move. With `--execute`
    returns when all have moved, within the throttle given now; removes every throttle, including those of that
    command."""
    if not going:
        return
    print(f"{counted(len(going), 'partition')} still moving{where}", flush=True)
    if not arguments.execute:
        return
    try:
        if arguments.throttle is None:
            _end_throttles_of(admin, going)
        else:
            _throttle_again(admin, going, arguments.throttle)
        wait_until_moved(admin, going)
    finally:
        _end_throttles_of(admin, going)


def _throttle_again(admin: ClusterAdmin, going: Mapping[TopicPartition, Reassignment], bytes_per_s: int) -> None:
    """Also throttles replicas that are being removed: they may lead."""
    from moldau.client.admin.reassignments import throttle

    before = {partition: row.before for partition, row in going.items()}
    throttle(admin, before, {partition: row.wanted for partition, row in going.items()}, bytes_per_s)


def _end_throttles_of(admin: ClusterAdmin, going: Mapping[TopicPartition, Reassignment]) -> None:
    """Ends the throttles of the moved topics and of the brokers that serve. Covers all these brokers once nothing moves
    any more, as Kafka's own tool does, because the interrupted command may have limited others too."""
    from moldau.client.admin.partitions import list_reassignments
    from moldau.client.admin.reassignments import end_throttles
    from moldau.client.admin.topics import list_topics

    brokers = {*admin.cluster().broker_ids()}
    if list_reassignments(admin):
        brokers &= {broker for row in going.values() for broker in row.replicas}
    topics = {partition.topic for partition in going}
    end_throttles(admin, sorted(brokers), sorted(topics & {*list_topics(admin)}))


def wait_until_moved(admin: ClusterAdmin, partitions: Collection[TopicPartition]) -> None:
    """Returns when no partition is being moved any more; reports the progress."""
    from moldau.client.admin.partitions import list_reassignments

    left = len(partitions)
    while left:
        moving = list_reassignments(admin)
        now_left = sum(partition in moving for partition in partitions)
        if now_left != left:
            print(f"{now_left} of {len(partitions)} partitions are still moving", flush=True)
        left = now_left
        if left:
            time.sleep(POLL_MS / 1_000)
