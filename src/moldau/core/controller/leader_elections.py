"""ElectLeaders (KIP-183, 460): elects the preferred leader or, with possible loss of records, any active replica."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.partition_changes import change_partition, may_lead, topic_terms
from moldau.core.metadata.batches import MAX_BATCH_RECORDS
from moldau.core.metadata.fold import UNASSIGNED_DIRECTORY, MetadataRecord
from moldau.core.metadata.image import NO_LEADER, LeaderRecoveryState, MetadataImage, PartitionImage, TopicImage
from moldau.errors import KafkaError, kafka_error
from moldau.types import Pausing, each_of
from moldau.wire.protocol.messages.metadata_records import PartitionChangeRecord
from moldau.wire.protocol.messages.partitions import (
    ElectionPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReplicaElectionResult,
)


class ElectionType(enum.IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    image: MetadataImage, settings: BrokerSettings, request: ElectLeadersRequest
) -> Pausing[tuple[list[MetadataRecord], ElectLeadersResponse]]:
    """The records of the elections, and a result for each partition. A request for all topics leaves out partitions
    that need no election."""
    if request.timeout_ms <= 0:
        return [], (yield from refused(request, kafka_error("REQUEST_TIMED_OUT")))
    if request.election_type not in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
        unknown = kafka_error("INVALID_REQUEST", f"Unknown election type {request.election_type}")
        return [], (yield from refused(request, unknown))
    asked: Iterable[tuple[str, tuple[int, ...]]]
    if request.topic_partitions is None:
        asked = ((name, tuple(image.topics_by_name[name].partitions)) for name in sorted(image.topics_by_name))
    else:
        asked = ((topic.topic, topic.partitions) for topic in request.topic_partitions)
    records: list[MetadataRecord] = []
    results: list[ReplicaElectionResult] = []
    elected: dict[tuple[str, int], None] = {}
    not_needed = kafka_error("ELECTION_NOT_NEEDED", "Leader election not needed for topic partition.")
    for name, partitions in asked:
        answers: list[ElectionPartitionResult] = []
        for partition_id in partitions:
            yield
            try:
                if (name, partition_id) in elected:
                    raise not_needed
                if len(records) == MAX_BATCH_RECORDS:
                    raise kafka_error(
                        "REQUEST_TIMED_OUT", "the request names too many partitions: ask again for this one"
                    )
                records.append(_election(image, settings, name, partition_id, request.election_type, not_needed))
            except KafkaError as error:
                if request.topic_partitions is not None or error is not not_needed:
                    answers.append(ElectionPartitionResult(partition_id, error.code, error.message))
                continue
            elected[name, partition_id] = None
            answers.append(ElectionPartitionResult(partition_id, 0, None))
        results.append(ReplicaElectionResult(name, tuple(answers)))
    return records, ElectLeadersResponse(replica_election_results=tuple(results))


def refused(request: ElectLeadersRequest, error: KafkaError) -> Pausing[ElectLeadersResponse]:
    """The response with `error` for the request and each partition."""
    results = []
    for topic in request.topic_partitions or ():
        yield
        rows = each_of(ElectionPartitionResult(index, error.code, error.message) for index in topic.partitions)
        results.append(ReplicaElectionResult(topic.topic, (yield from rows)))
    return ElectLeadersResponse(error_code=error.code, replica_election_results=tuple(results))


def _election(
    image: MetadataImage,
    settings: BrokerSettings,
    name: str,
    partition_id: int,
    election_type: int,
    not_needed: KafkaError,
) -> PartitionChangeRecord:
    topic = image.topics_by_name.get(name)
    if topic is None:
        raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"No such topic as {name}")
    old = topic.partitions.get(partition_id)
    if old is None:
        raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"No such partition as {name}-{partition_id}")
    if election_type == ElectionType.PREFERRED:
        preferred = old.replicas[0]
        if old.leader == preferred:
            raise not_needed
        if preferred not in old.isr or not may_lead(image, old, preferred):
            raise kafka_error("PREFERRED_LEADER_NOT_AVAILABLE", "The preferred leader was not available.")
        return PartitionChangeRecord(partition_id=partition_id, topic_id=topic.topic_id, leader=preferred)
    if old.leader != NO_LEADER:
        raise not_needed
    return _unclean(image, settings, topic, partition_id, old)


def _unclean(
    image: MetadataImage, settings: BrokerSettings, topic: TopicImage, partition_id: int, old: PartitionImage
) -> PartitionChangeRecord:
    """Elects as without a request: first an in-sync replica, then an eligible one, then any active one. A replica in a
    failed directory leads only if all replicas have lost their directories."""
    terms = topic_terms(image, settings, topic)
    terms = msgspec.structs.replace(terms, rules=msgspec.structs.replace(terms.rules, allows_unclean=True))
    record = change_partition(terms, partition_id, old.isr)
    if record is None or record.leader < 0:
        record = _beginning_anew(image, topic, partition_id, old)
    if record is None:
        raise kafka_error("ELIGIBLE_LEADERS_NOT_AVAILABLE", "Eligible topic partition leaders are not available.")
    return record


def _beginning_anew(
    image: MetadataImage, topic: TopicImage, partition_id: int, old: PartitionImage
) -> PartitionChangeRecord | None:
    """The first replica leads in any directory of its broker, with an empty log if the disk is lost. None while a
    broker is away that may return with records. A broker whose failed directory is still in `log.dirs` does not begin
    with an empty log: it continues with its records when the directory is back."""
    brokers = [image.brokers.get(replica) for replica in old.replicas]
    if not all(broker is not None and broker.is_active for broker in brokers):
        return None
    leader = old.replicas[0]
    return PartitionChangeRecord(
        partition_id=partition_id,
        topic_id=topic.topic_id,
        isr=(leader,),
        leader=leader,
        leader_recovery_state=LeaderRecoveryState.RECOVERING,
        directories=(UNASSIGNED_DIRECTORY, *old.directories[1:]),
        eligible_leader_replicas=() if old.eligible_leader_replicas else None,
        last_known_elr=() if old.last_known_elr else None,
    )
