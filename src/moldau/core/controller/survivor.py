"""Makes the last remaining node of a lost cluster the leader of its replicas.

It leads every partition of which it has a replica, in sync or not, alone. The other replicas stay assigned: nodes with
their ids copy from the survivor.
"""

from __future__ import annotations

import msgspec

from moldau.core.controller.brokers import FENCED
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import NO_LEADER, LeaderRecoveryState, MetadataImage, PartitionImage
from moldau.types import BrokerId, TopicPartition, Uuid
from moldau.wire.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)

_UNCHANGED = -1


class Survivor(msgspec.Struct, frozen=True):
    """The records that do it, and the losses."""

    records: tuple[MetadataRecord, ...]
    whole: tuple[TopicPartition, ...]
    """Partitions whose replica here was in sync in the metadata: it has every record acknowledged until then."""
    lacking: tuple[TopicPartition, ...]
    """Partitions whose replica here was not in sync: the newest records may be missing."""
    gone: tuple[TopicPartition, ...]
    """Partitions without a replica here."""


def survive(image: MetadataImage, node_id: BrokerId) -> Survivor:
    """`image`: everything in the survivor's metadata log, committed or not."""
    records: list[MetadataRecord] = []
    found: dict[str, list[TopicPartition]] = {"whole": [], "lacking": [], "gone": []}
    if image.transaction is not None:
        records.append(AbortTransactionRecord("the cluster was recovered from one of its nodes"))
    for name, topic in sorted(image.topics_by_name.items()):
        for index, partition in sorted(topic.partitions.items()):
            kind = _kind(partition, node_id)
            found[kind].append(TopicPartition(name, index))
            records.append(_alone(topic.topic_id, index, partition, node_id, kind))
    records.extend(
        BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, fenced=FENCED)
        for broker in image.brokers.values()
        if broker.broker_id != node_id and not broker.is_fenced
    )
    return Survivor(tuple(records), tuple(found["whole"]), tuple(found["lacking"]), tuple(found["gone"]))


def _kind(partition: PartitionImage, node_id: BrokerId) -> str:
    if node_id not in partition.replicas:
        return "gone"
    is_in_sync = node_id in (*partition.isr, *partition.eligible_leader_replicas)
    # a recovering leader was elected out of sync: by an operator, or by a recovery without a start since
    is_recovered = partition.leader_recovery_state == LeaderRecoveryState.RECOVERED
    return "whole" if is_in_sync and is_recovered else "lacking"


def _alone(
    topic_id: Uuid, index: int, partition: PartitionImage, node_id: BrokerId, kind: str
) -> PartitionChangeRecord:
    if kind == "gone":
        return PartitionChangeRecord(index, topic_id, leader=NO_LEADER)
    return PartitionChangeRecord(
        index,
        topic_id,
        isr=(node_id,),
        leader=node_id,
        leader_recovery_state=LeaderRecoveryState.RECOVERING if kind == "lacking" else _UNCHANGED,
        eligible_leader_replicas=() if partition.eligible_leader_replicas else None,
        last_known_elr=() if partition.last_known_elr else None,
    )
