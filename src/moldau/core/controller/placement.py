"""Places the replicas of a new topic over brokers and racks, as Kafka's StripedReplicaPlacer does.

The brokers form a ring in which racks alternate. Partition p begins at ring position start + p and takes the next
brokers. So leaders are spread evenly, and the replicas of a partition are in different racks if possible.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.core.metadata.image import BrokerImage
from moldau.errors import kafka_error
from moldau.ports import Random


def place_replicas(
    partition_count: int, replication_factor: int, brokers: Sequence[BrokerImage], random: Random
) -> list[tuple[int, ...]]:
    """The replicas of each partition, preferred leader first.

    Raises INVALID_REPLICATION_FACTOR if brokers or active brokers are too few. Fenced brokers and brokers in controlled
    shutdown are used only if the others do not suffice, and never as the preferred leader. (Kafka places one-replica
    partitions on them, and then rejects the topic.)
    """
    usable = [broker for broker in brokers if not _is_cordoned(broker)]
    if replication_factor > len(usable):
        raise kafka_error(
            "INVALID_REPLICATION_FACTOR",
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {len(usable)} broker(s) are registered or some "
            "brokers have all their log directories cordoned.",
        )
    ring = _ring([broker for broker in usable if broker.is_active], random)
    if not ring:
        state = "fenced" if all(broker.is_fenced for broker in usable) else "fenced or in controlled shutdown"
        raise kafka_error(
            "INVALID_REPLICATION_FACTOR",
            f"Unable to replicate the partition {replication_factor} time(s): All brokers are currently {state}.",
        )
    spare = _ring([broker for broker in usable if not broker.is_active], random)
    start = random.random_below(len(ring))
    placements: list[tuple[int, ...]] = []
    for partition in range(partition_count):
        replicas = _turn(ring, start + partition)[:replication_factor]
        replicas += _turn(spare, start + partition)[: replication_factor - len(replicas)]
        placements.append(tuple(replicas))
    return placements


def _is_cordoned(broker: BrokerImage) -> bool:
    """Whether all directories of the broker are cordoned, so it gets no new replicas (KIP-1066)."""
    cordoned = broker.cordoned_log_directories or ()
    return bool(broker.log_directories) and all(directory in cordoned for directory in broker.log_directories)


def _ring(brokers: Sequence[BrokerImage], random: Random) -> list[int]:
    """The ids, shuffled inside each rack, taken from one rack after the other."""
    racks: dict[str, list[int]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.broker_id):
        racks.setdefault(broker.rack or "", []).append(broker.broker_id)
    for ids in racks.values():
        for last in range(len(ids) - 1, 0, -1):
            other = random.random_below(last + 1)
            ids[last], ids[other] = ids[other], ids[last]
    ring: list[int] = []
    while len(ring) < len(brokers):
        ring += [ids.pop() for ids in racks.values() if ids]
    return ring


def _turn(ring: list[int], by: int) -> list[int]:
    if not ring:
        return []
    cut = by % len(ring)
    return ring[cut:] + ring[:cut]
