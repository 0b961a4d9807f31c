"""Moves replicas to other brokers and log directories, within a throttle (KIP-73, 113, 455)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.configs import BROKER, TOPIC, alter_configs, as_changes
from moldau.client.admin.error_texts import error_of
from moldau.client.protocol.offsets import by_topic
from moldau.errors import KafkaError
from moldau.types import TopicPartition
from moldau.wire.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from moldau.wire.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

Replicas = tuple[int, ...]
BROKER_THROTTLES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LOG_DIR_THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
TOPIC_THROTTLES = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def reassign(
    admin: ClusterAdmin, wanted: Mapping[TopicPartition, Replicas | None], *, may_change_factor: bool = True
) -> dict[TopicPartition, KafkaError | None]:
    """Starts moving each partition to these replicas; None cancels a running move. Returns the error of each partition.
    With `may_change_factor` False, also rejects changes of the number of replicas (KIP-860)."""
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=admin.request_timeout_ms,
        allow_replication_factor_change=may_change_factor,
        topics=tuple(
            ReassignableTopic(topic, tuple(ReassignablePartition(row.partition, wanted[row]) for row in rows))
            for topic, rows in by_topic(wanted).items()
        ),
    )
    answer = admin.ask(request)
    if answer.error_code:
        raise error_of(answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, row.partition_index): (
            error_of(row.error_code, row.error_message) if row.error_code else None
        )
        for topic in answer.responses
        for row in topic.partitions
    }


def move_to_log_dirs(
    admin: ClusterAdmin, broker_id: int, directories: Mapping[TopicPartition, str]
) -> dict[TopicPartition, KafkaError | None]:
    """Moves replicas of one broker to these of its log directories. Returns the error of each partition."""
    by_path: dict[str, list[TopicPartition]] = {}
    for partition, path in directories.items():
        by_path.setdefault(path, []).append(partition)
    request = AlterReplicaLogDirsRequest(
        tuple(
            AlterReplicaLogDir(
                path,
                tuple(
                    AlterReplicaLogDirTopic(topic, tuple(row.partition for row in rows))
                    for topic, rows in by_topic(partitions).items()
                ),
            )
            for path, partitions in by_path.items()
        )
    )
    answer = admin.ask_broker(broker_id, request)
    return {
        TopicPartition(topic.topic_name, row.partition_index): error_of(row.error_code) if row.error_code else None
        for topic in answer.results
        for row in topic.partitions
    }


def throttle(
    admin: ClusterAdmin,
    current: Mapping[TopicPartition, Replicas],
    wanted: Mapping[TopicPartition, Replicas],
    bytes_per_s: int,
) -> None:
    """Limits the moves from `current` to `wanted`: the rate at which leaders send to new replicas, and at which these
    fetch."""
    brokers = {broker for replicas in (*current.values(), *wanted.values()) for broker in replicas}
    for broker in sorted(brokers):
        alter_configs(admin, BROKER, str(broker), as_changes(dict.fromkeys(BROKER_THROTTLES, str(bytes_per_s)), ()))
    for topic, rows in by_topic(wanted).items():
        leaders = _throttled((row.partition, current[row]) for row in rows)
        followers = _throttled((row.partition, [one for one in wanted[row] if one not in current[row]]) for row in rows)
        alter_configs(
            admin, TOPIC, topic, as_changes(dict(zip(TOPIC_THROTTLES, (leaders, followers), strict=True)), ())
        )


def throttle_log_dirs(admin: ClusterAdmin, brokers: Iterable[int], bytes_per_s: int) -> None:
    """Limits the moves between log directories of these brokers."""
    for broker in sorted(brokers):
        alter_configs(admin, BROKER, str(broker), as_changes({LOG_DIR_THROTTLE: str(bytes_per_s)}, ()))


def _throttled(rows: Iterable[tuple[int, Sequence[int]]]) -> str:
    """`partition:broker`, separated by commas, in order."""
    return ",".join(f"{index}:{broker}" for index, brokers in sorted(rows) for broker in sorted(brokers))


def end_throttles(admin: ClusterAdmin, brokers: Iterable[int], topics: Iterable[str]) -> None:
    """Removes the settings of `throttle` and `throttle_log_dirs`. A missing broker or deleted topic does not keep the
    throttle on the others: its error is raised after all requests."""
    settings_of_brokers = (*BROKER_THROTTLES, LOG_DIR_THROTTLE)
    asked: list[tuple[int, str, tuple[str, ...]]] = [(BROKER, str(broker), settings_of_brokers) for broker in brokers]
    asked += [(TOPIC, topic, TOPIC_THROTTLES) for topic in topics]
    refused: list[KafkaError] = []
    for kind, name, settings in asked:
        try:
            alter_configs(admin, kind, name, as_changes({}, settings))
        except KafkaError as error:
            refused.append(error)
    if refused:
        raise refused[0]


def without_broker(
    current: Mapping[TopicPartition, Replicas], broker_id: int, racks: Mapping[int, str | None]
) -> dict[TopicPartition, Replicas]:
    """The partitions with a replica on the broker, with a replacement that `placed_on` chooses. `racks`: those of all
    brokers that serve. Raises ValueError if no broker is left for a partition."""
    held = [partition for partition, replicas in current.items() if broker_id in replicas]
    return placed_on(current, held, {broker: rack for broker, rack in racks.items() if broker != broker_id})


def placed_on(
    current: Mapping[TopicPartition, Replicas],
    partitions: Iterable[TopicPartition],
    racks: Mapping[int, str | None],
    factor: int | None = None,
) -> dict[TopicPartition, Replicas]:
    """The changed ones of `partitions`, with all replicas on the brokers of `racks`, and `factor` replicas (None: the
    present number). Keeps replicas where possible. Otherwise prefers a broker in a rack that the partition does not use
    yet, and among those the one with the fewest replicas. Raises ValueError if there are too few brokers."""
    held = dict.fromkeys(racks, 0)
    for replicas in current.values():
        for broker in replicas:
            if broker in held:
                held[broker] += 1
    moved: dict[TopicPartition, Replicas] = {}
    for partition in partitions:
        before = current[partition]
        count = len(before) if factor is None else factor
        if len(held) < count:
            raise ValueError(f"{partition} needs {count} brokers, and there are {len(held)} to place it on")
        kept = {place: broker for place, broker in enumerate(before[:count]) if broker in held}
        places = dict(kept)
        for place in range(count):
            if place not in kept:
                used = {racks[broker] for broker in places.values()}
                free = (broker for broker in held if broker not in places.values())
                places[place] = min(free, key=lambda broker: (racks[broker] in used, held[broker], broker))
                held[places[place]] += 1
        after = tuple(places[place] for place in range(count))
        if after != before:
            moved[partition] = after
    return moved
