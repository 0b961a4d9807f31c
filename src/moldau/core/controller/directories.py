"""In which log directory of a broker each replica lies (KIP-858): the broker chooses, the metadata log remembers."""

from __future__ import annotations

from moldau.core.controller.requests import AssignDirectories, DirectoriesAssigned
from moldau.core.metadata.fold import UNASSIGNED_DIRECTORY, MetadataRecord
from moldau.core.metadata.image import MetadataImage
from moldau.errors import kafka_error
from moldau.wire.protocol.messages.metadata_records import PartitionChangeRecord


def assign_directories(
    image: MetadataImage, request: AssignDirectories
) -> tuple[list[MetadataRecord], DirectoriesAssigned]:
    """A record for each replica that lies elsewhere than the metadata says. Raises STALE_BROKER_EPOCH.

    What is gone meanwhile, or is no replica of that broker, is passed over: the broker gets that change, too.
    """
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise kafka_error("STALE_BROKER_EPOCH")
    records: list[MetadataRecord] = []
    for topic_id, index, directory_id in request.replicas:
        topic = image.topics_by_id.get(topic_id)
        partition = None if topic is None else topic.partitions.get(index)
        if partition is None or request.broker_id not in partition.replicas:
            continue
        place = partition.replicas.index(request.broker_id)
        known = partition.directories or (UNASSIGNED_DIRECTORY,) * len(partition.replicas)
        if known[place] != directory_id:
            directories = (*known[:place], directory_id, *known[place + 1 :])
            records.append(PartitionChangeRecord(partition_id=index, topic_id=topic_id, directories=directories))
    return records, DirectoriesAssigned()
