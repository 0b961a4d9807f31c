"""In which log directory of a broker each replica lies (KIP-858): the broker chooses, the metadata log remembers."""

from __future__ import annotations

from msgspec.structs import replace

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.partition_changes import change_partition, may_lead, topic_terms
from moldau.core.metadata.fold import UNASSIGNED_DIRECTORY, MetadataRecord
from moldau.core.metadata.image import NO_LEADER, MetadataImage
from moldau.errors import ERROR_CODES, kafka_error
from moldau.types import Uuid
from moldau.wire.protocol.messages.broker_lifecycle import (
    AssignmentDirectory,
    AssignmentPartition,
    AssignmentTopic,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from moldau.wire.protocol.messages.metadata_records import PartitionChangeRecord


def assign_directories(
    image: MetadataImage, settings: BrokerSettings, request: AssignReplicasToDirsRequest
) -> tuple[list[MetadataRecord], AssignReplicasToDirsResponse]:
    """A record for each replica that lies elsewhere than the metadata says. Raises STALE_BROKER_EPOCH. A partition that
    has no leader, for the directory that the metadata names is not there, gets one now. A directory that has failed
    since the broker noted its report takes the replica out of the in-sync ones: the heartbeat that told of it came too
    early for that.

    What is gone meanwhile, or is no replica of that broker, gets its error code: the broker gets that change, too.
    """
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise kafka_error("STALE_BROKER_EPOCH")
    records: list[MetadataRecord] = []

    def assign(topic_id: Uuid, index: int, directory_id: Uuid) -> AssignmentPartition:
        topic = image.topics_by_id.get(topic_id)
        partition = None if topic is None else topic.partitions.get(index)
        if partition is None:
            error = "UNKNOWN_TOPIC_ID" if topic is None else "UNKNOWN_TOPIC_OR_PARTITION"
            return AssignmentPartition(index, ERROR_CODES[error])
        if request.broker_id not in partition.replicas:
            return AssignmentPartition(index, ERROR_CODES["NOT_LEADER_OR_FOLLOWER"])
        place = partition.replicas.index(request.broker_id)
        known = partition.directories or (UNASSIGNED_DIRECTORY,) * len(partition.replicas)
        if known[place] != directory_id:
            directories = (*known[:place], directory_id, *known[place + 1 :])
            record = PartitionChangeRecord(partition_id=index, topic_id=topic_id)
            found = replace(partition, directories=directories)
            is_served = may_lead(image, found, request.broker_id, is_coming=True)
            if topic is not None and (partition.leader == NO_LEADER or not is_served):
                isr = tuple(each for each in partition.isr if is_served or each != request.broker_id)
                terms = topic_terms(image, settings, topic)
                record = change_partition(image, terms, index, isr, old=found) or record
            # the end of a reassignment names the directories of the replicas that stay
            records.append(replace(record, directories=directories) if record.replicas is None else record)
        return AssignmentPartition(index)

    assigned = tuple(
        AssignmentDirectory(
            directory.id,
            tuple(
                AssignmentTopic(
                    topic.topic_id,
                    tuple(assign(topic.topic_id, one.partition_index, directory.id) for one in topic.partitions),
                )
                for topic in directory.topics
            ),
        )
        for directory in request.directories
    )
    return records, AssignReplicasToDirsResponse(directories=assigned)
