"""AssignReplicasToDirs: the log directory of each replica (KIP-858). The broker chooses, the metadata log remembers.

A broker with a full directory reports a replica as lost while other replicas can lead. The replica then loses the
leadership and its place in the ISR, for this partition only. The records stay.
"""

from __future__ import annotations

from msgspec.structs import replace

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.partition_changes import change_partition, may_lead, topic_terms
from moldau.core.metadata.fold import UNASSIGNED_DIRECTORY, MetadataRecord
from moldau.core.metadata.image import LOST_DIRECTORY, NO_LEADER, MetadataImage, PartitionImage
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
    """A record for each replica whose directory changed. Raises STALE_BROKER_EPOCH. A partition without a leader,
    because its directory was missing, gets one. If the directory has failed since the report, the replica leaves the
    ISR, because the heartbeat with the failure came too early for that.

    Unknown topics, partitions and replicas get their error codes. The broker gets that change too.
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
        directories = (*known[:place], directory_id, *known[place + 1 :])
        found = replace(partition, directories=directories)
        is_served = may_lead(image, found, request.broker_id, is_coming=True)
        # a replica that cannot append may rejoin the ISR while its leader has nothing new
        is_leaving = not is_served and request.broker_id in partition.isr
        if known[place] != directory_id or is_leaving:
            record = PartitionChangeRecord(partition_id=index, topic_id=topic_id)
            if topic is not None and (partition.leader == NO_LEADER or not is_served):
                isr = tuple(each for each in partition.isr if is_served or each != request.broker_id)
                terms = topic_terms(image, settings, topic)
                record = change_partition(terms, index, isr, old=found) or record
            # completing a reassignment sets the directories of the remaining replicas
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


def place_without_room(image: MetadataImage, partition: PartitionImage, broker_id: int, directory_id: Uuid) -> Uuid:
    """The directory that a broker reports for a replica in the full directory `directory_id`. Leadership moves to
    another in-sync replica. If none may lead, it stays, and reading continues. A replica that waits for a leader may
    lead again."""
    noted = _noted(partition, broker_id)
    if partition.leader == broker_id and has_successor(image, partition, broker_id):
        return LOST_DIRECTORY
    if partition.leader == NO_LEADER and noted == LOST_DIRECTORY:
        return directory_id
    return noted


def place_of_follower(partition: PartitionImage, broker_id: int) -> Uuid | None:
    """As `place_without_room`, for a follower without room to append, which has left the ISR. None: already
    reported."""
    is_led = partition.leader not in (NO_LEADER, broker_id)
    is_known = broker_id not in partition.isr and _noted(partition, broker_id) == LOST_DIRECTORY
    return LOST_DIRECTORY if is_led and partition.directories and not is_known else None


def has_successor(image: MetadataImage, partition: PartitionImage, broker_id: int) -> bool:
    """Whether another in-sync replica may lead, and the metadata can express that this one may not."""
    others = (replica for replica in partition.isr if replica != broker_id)
    return bool(partition.directories) and any(may_lead(image, partition, replica) for replica in others)


def _noted(partition: PartitionImage, broker_id: int) -> Uuid:
    if not partition.directories or broker_id not in partition.replicas:
        return UNASSIGNED_DIRECTORY
    return partition.directories[partition.replicas.index(broker_id)]
