"""AlterPartition: a leader proposes in-sync replicas, the controller decides (KIP-497, 704, 841, 903)."""

from __future__ import annotations

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.partition_changes import change_partition, topic_terms
from moldau.core.metadata.batches import MAX_BATCH_RECORDS
from moldau.core.metadata.fold import LEADER_UNCHANGED, MetadataRecord, merge_partition
from moldau.core.metadata.image import LeaderRecoveryState, MetadataImage, PartitionImage
from moldau.errors import ERROR_CODES, kafka_error
from moldau.types import Pausing, Uuid
from moldau.wire.protocol.messages.in_sync_replicas import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    ProposedPartition,
)

NO_EPOCH = -1
"""A broker epoch of -1 is not compared."""


def alter_partition(
    image: MetadataImage, settings: BrokerSettings, request: AlterPartitionRequest
) -> Pausing[tuple[list[MetadataRecord], AlterPartitionResponse]]:
    """The records of the accepted proposals, and for each the new partition or the error. A change that ends a
    reassignment may move the leadership away from the proposer: NEW_LEADER_ELECTED.

    Only the first proposal for a repeated partition is accepted, because the second has an old partition epoch. Raises
    STALE_BROKER_EPOCH.
    """
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise kafka_error("STALE_BROKER_EPOCH")
    records: list[MetadataRecord] = []
    changed: dict[tuple[Uuid, int], PartitionImage] = {}
    topics: list[AlteredTopic] = []
    for topic in request.topics:
        answers: list[AlteredPartition] = []
        known = image.topics_by_id.get(topic.topic_id)
        terms = None if known is None else topic_terms(image, settings, known)
        for proposed in topic.partitions:
            yield
            index = proposed.partition_index
            if terms is None:
                answers.append(AlteredPartition(index, ERROR_CODES["UNKNOWN_TOPIC_ID"]))
                continue
            old = changed.get((topic.topic_id, index), terms.topic.partitions.get(index))
            states = proposed.new_isr_with_epochs or tuple(BrokerState(replica) for replica in proposed.new_isr)
            error = _fault(image, request.broker_id, old, proposed, states)
            if old is None or error or len(records) == MAX_BATCH_RECORDS:
                answers.append(AlteredPartition(index, ERROR_CODES[error or "OPERATION_NOT_ATTEMPTED"]))
                continue
            target = tuple(state.broker_id for state in states)
            state = proposed.leader_recovery_state
            record = change_partition(terms, index, target, recovery_state=state)
            if record is not None:
                records.append(record)
                old = changed[topic.topic_id, index] = merge_partition(old, record)
            if record is not None and record.leader not in (LEADER_UNCHANGED, request.broker_id):
                answers.append(AlteredPartition(index, ERROR_CODES["NEW_LEADER_ELECTED"]))
            else:
                answers.append(_altered(index, old))
        topics.append(AlteredTopic(topic.topic_id, tuple(answers)))
    return records, AlterPartitionResponse(topics=tuple(topics))


def _fault(
    image: MetadataImage,
    proposer: int,
    partition: PartitionImage | None,
    proposed: ProposedPartition,
    isr: tuple[BrokerState, ...],
) -> str | None:
    """The name of the error, in Kafka's order; None for a valid proposal."""
    if partition is None:
        return "UNKNOWN_TOPIC_OR_PARTITION"
    if proposed.leader_epoch > partition.leader_epoch or proposed.partition_epoch > partition.partition_epoch:
        return "NOT_CONTROLLER"  # the proposer has newer metadata: another controller is active
    if proposed.leader_epoch < partition.leader_epoch:
        return "FENCED_LEADER_EPOCH"
    if proposer != partition.leader:
        return "INVALID_REQUEST"
    if proposed.partition_epoch < partition.partition_epoch:
        return "INVALID_UPDATE_VERSION"
    ids = [state.broker_id for state in isr]
    if len(dict.fromkeys(ids)) < len(ids) or any(replica not in partition.replicas for replica in ids):
        return "INVALID_REQUEST"
    if proposer not in ids:
        return "INVALID_REQUEST"
    recovering = LeaderRecoveryState.RECOVERING
    if proposed.leader_recovery_state == recovering and (len(ids) > 1 or partition.leader_recovery_state != recovering):
        return "INVALID_REQUEST"
    return None if all(_may_be_in_sync(image, state) for state in isr) else "INELIGIBLE_REPLICA"


def _may_be_in_sync(image: MetadataImage, state: BrokerState) -> bool:
    broker = image.brokers.get(state.broker_id)
    return broker is not None and broker.is_active and state.broker_epoch in (NO_EPOCH, broker.epoch)


def _altered(index: int, partition: PartitionImage) -> AlteredPartition:
    return AlteredPartition(
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )
