"""CreatePartitions (KIP-195): more partitions for a topic, with the responses of Apache Kafka.

One difference: more than 10,000 new partitions in a request are rejected before any is added. Apache Kafka answers -1
and still adds some.
"""

from __future__ import annotations

from moldau.core.controller.assignments import (
    Charge,
    add_partitions,
    bad_assignment,
    check_active,
    check_assignment,
    check_request,
    free_of_charge,
    split_repeated,
)
from moldau.core.controller.placement import place_replicas
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import MetadataImage, TopicImage
from moldau.errors import KafkaError, kafka_error
from moldau.ports import Random
from moldau.types import Pausing, Uuid, each_of
from moldau.wire.protocol.messages.partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def create_partitions(
    image: MetadataImage, random: Random, request: CreatePartitionsRequest, charge: Charge = free_of_charge
) -> Pausing[tuple[list[MetadataRecord], CreatePartitionsResponse]]:
    """The records of the new partitions (none if only validating), and a result for each topic."""
    asked, repeated = yield from split_repeated(request.topics, lambda topic: topic.name)
    duplicate = kafka_error("INVALID_REQUEST", "Duplicate topic name.")
    results = list((yield from each_of(refused(topic.name, duplicate) for topic in repeated)))
    partitions = 0
    for topic in asked:
        partitions += _asked_partitions(image, topic)
        yield
    try:
        check_request(partitions, request.timeout_ms)
    except KafkaError as error:
        results += yield from each_of(refused(topic.name, error) for topic in asked)
        return [], CreatePartitionsResponse(results=tuple(results))
    records: list[MetadataRecord] = []
    for topic in asked:
        try:
            topic_id, first, placements = _added(image, random, topic)
            charge(len(placements))
        except KafkaError as error:
            results.append(refused(topic.name, error))
        else:
            results.append(CreatePartitionsTopicResult(topic.name))
            yield from add_partitions(image, topic_id, first, placements, records)
        yield
    return [] if request.validate_only else records, CreatePartitionsResponse(results=tuple(results))


def refused(name: str, error: KafkaError) -> CreatePartitionsTopicResult:
    """The result of one topic with its error."""
    return CreatePartitionsTopicResult(name, error.code, error.message)


def _asked_partitions(image: MetadataImage, asked: CreatePartitionsTopic) -> int:
    """The number of requested partitions beyond the existing ones."""
    topic = image.topics_by_name.get(asked.name)
    return 0 if topic is None else max(0, asked.count - len(topic.partitions))


def _added(
    image: MetadataImage, random: Random, asked: CreatePartitionsTopic
) -> tuple[Uuid, int, list[tuple[int, ...]]]:
    """Topic id, first new partition, and the replicas of each new one. Raises KafkaError for the first error."""
    topic = image.topics_by_name.get(asked.name)
    if topic is None:
        raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION")
    current = len(topic.partitions)
    if asked.count == current:
        raise kafka_error("INVALID_PARTITIONS", f"Topic already has {current} partition(s).")
    if asked.count < current:
        raise kafka_error(
            "INVALID_PARTITIONS",
            f"The topic {asked.name} currently has {current} partition(s); {asked.count} would not be an increase.",
        )
    if asked.assignments is None:
        brokers = list(image.brokers.values())
        placements = place_replicas(asked.count - current, topic.replication_factor, brokers, random)
    else:
        placements = _assigned(image, topic, asked)
    return topic.topic_id, current, placements


def _assigned(image: MetadataImage, topic: TopicImage, asked: CreatePartitionsTopic) -> list[tuple[int, ...]]:
    assignments = asked.assignments or ()
    current = len(topic.partitions)
    if len(assignments) != asked.count - current:
        raise bad_assignment(
            f"Attempted to add {asked.count - current} additional partition(s), but only {len(assignments)} "
            "assignment(s) were specified."
        )
    for index, assignment in enumerate(assignments):
        check_assignment(image, assignment.broker_ids, topic.replication_factor)
        check_active(image, assignment.broker_ids, current + index)
    return [assignment.broker_ids for assignment in assignments]
