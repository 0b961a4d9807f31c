"""CreateTopics and DeleteTopics, with the responses of Apache Kafka.

One rejected topic does not affect the others of a request. Only faults of the whole request (its deadline, its size)
reject all.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.topic_settings import (
    INTERNAL_TOPIC_POLICIES,
    describe_topic_settings,
    validate_topic_settings,
)
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
from moldau.core.controller.configs import setting_layers, topic_config_records
from moldau.core.controller.placement import place_replicas
from moldau.core.controller.topic_names import CLUSTER_METADATA_TOPIC, topic_name_fault
from moldau.core.metadata.batches import MAX_BATCH_RECORDS, batch_too_large
from moldau.core.metadata.fold import MetadataFold, MetadataRecord
from moldau.core.metadata.image import MetadataImage, TopicImage
from moldau.core.metadata.random_uuid import random_uuid
from moldau.errors import KafkaError, kafka_error
from moldau.ports import Random
from moldau.types import ZERO_UUID, Pausing, Uuid, each_of
from moldau.wire.protocol.messages.metadata_records import RemoveTopicRecord, TopicRecord
from moldau.wire.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

USE_DEFAULT = -1
_NAMED_TWICE = "The provided topic name maps to an ID that was already supplied."


class NewTopic(msgspec.Struct, frozen=True):
    """A valid new topic: its replicas by partition, and its own settings."""

    name: str
    placements: tuple[tuple[int, ...], ...]
    configs: dict[str, str]


def create_topics(
    state: MetadataFold,
    settings: BrokerSettings,
    random: Random,
    request: CreateTopicsRequest,
    charge: Charge = free_of_charge,
) -> Pausing[tuple[list[MetadataRecord], CreateTopicsResponse]]:
    """The records of the new topics (none if only validating), and a result for each."""
    image = state.image
    asked, repeated = yield from split_repeated(request.topics, lambda topic: topic.name)
    results: list[CreatableTopicResult] = []
    records: list[MetadataRecord] = []
    describe = cache(lambda configs: _described(image, settings, dict(configs)))
    try:
        partitions = 0
        for topic in asked:
            partitions += _requested_partitions(topic, settings)
            yield
        check_request(partitions, request.timeout_ms)
        for topic in asked:
            try:
                configs: dict[str, str | None] = {}
                for config in topic.configs:
                    configs[config.name] = config.value
                    yield
                new_topic = _check_topic(state, settings, random, topic, configs)
                charge(len(new_topic.placements))
            except KafkaError as error:
                results.append(_refused(topic.name, error))
            else:
                topic_id = _unused_topic_id(image, random)
                records += (TopicRecord(topic.name, topic_id), *topic_config_records(topic.name, new_topic.configs))
                yield from add_partitions(image, topic_id, 0, new_topic.placements, records)
                results.append(_created(new_topic, topic_id, describe(tuple(new_topic.configs.items()))))
            yield
        if len(records) > MAX_BATCH_RECORDS:
            raise batch_too_large()
    except KafkaError as error:
        records, results = [], []
        for topic in asked:
            results.append(_refused(topic.name, error))
            yield
    duplicate = kafka_error("INVALID_REQUEST", "Duplicate topic name.")
    results += yield from each_of(_refused(topic.name, duplicate) for topic in repeated)
    return [] if request.validate_only else records, CreateTopicsResponse(topics=tuple(results))


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name, error_code=error.code, error_message=error.message)


def _requested_partitions(topic: CreatableTopic, settings: BrokerSettings) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return settings.num_partitions if topic.num_partitions == USE_DEFAULT else max(0, topic.num_partitions)


def _check_topic(
    state: MetadataFold,
    settings: BrokerSettings,
    random: Random,
    topic: CreatableTopic,
    requested: Mapping[str, str | None],
) -> NewTopic:
    """The new topic, complete. `requested`: its settings by name. Raises the first KafkaError in Kafka's order."""
    image = state.image
    if topic.name == CLUSTER_METADATA_TOPIC:
        raise kafka_error("INVALID_REQUEST", f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited.")
    fault = topic_name_fault(topic.name)
    if fault is not None:
        raise kafka_error("INVALID_TOPIC_EXCEPTION", fault)
    if topic.name in image.topics_by_name:
        raise kafka_error("TOPIC_ALREADY_EXISTS", f"Topic '{topic.name}' already exists.")
    collisions = state.colliding_names(topic.name)
    if collisions:
        others = ", ".join(collisions)
        raise kafka_error("INVALID_TOPIC_EXCEPTION", f"Topic '{topic.name}' collides with existing topic: {others}")
    validate_topic_settings(requested, settings)
    # As in Kafka, the request decides the settings of an internal topic, and a broker names all of them. But if a
    # client leaves out the cleanup policy, committed offsets must not expire as records do.
    configs = dict(INTERNAL_TOPIC_POLICIES.get(topic.name, {}))
    configs |= {name: value for name, value in requested.items() if value is not None}
    placements = _check_assignments(image, topic) if topic.assignments else _place(image, random, topic, settings)
    return NewTopic(topic.name, tuple(placements), configs)


def _place(
    image: MetadataImage, random: Random, topic: CreatableTopic, settings: BrokerSettings
) -> list[tuple[int, ...]]:
    partitions, replication_factor = settings.num_partitions, settings.default_replication_factor
    if topic.replication_factor == 0 or topic.replication_factor < USE_DEFAULT:
        raise kafka_error(
            "INVALID_REPLICATION_FACTOR", "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if topic.num_partitions == 0 or topic.num_partitions < USE_DEFAULT:
        raise kafka_error("INVALID_PARTITIONS", "Number of partitions was set to an invalid non-positive value.")
    if topic.num_partitions != USE_DEFAULT:
        partitions = topic.num_partitions
    if topic.replication_factor != USE_DEFAULT:
        replication_factor = topic.replication_factor
    return place_replicas(partitions, replication_factor, list(image.brokers.values()), random)


def _check_assignments(image: MetadataImage, topic: CreatableTopic) -> list[tuple[int, ...]]:
    """The replicas of a manual assignment, by partition."""
    for field, value in (("replication factor", topic.replication_factor), ("numPartitions", topic.num_partitions)):
        if value != USE_DEFAULT:
            raise kafka_error(
                "INVALID_REQUEST", f"A manual partition assignment was specified, but {field} was not set to -1."
            )
    by_partition: dict[int, tuple[int, ...]] = {}
    for assignment in topic.assignments:
        if assignment.partition_index in by_partition:
            raise bad_assignment(
                f"Found multiple manual partition assignments for partition {assignment.partition_index}"
            )
        expected = len(next(iter(by_partition.values()))) if by_partition else None
        check_assignment(image, assignment.broker_ids, expected)
        check_active(image, assignment.broker_ids, assignment.partition_index)
        by_partition[assignment.partition_index] = assignment.broker_ids
    if sorted(by_partition) != list(range(len(by_partition))):
        raise bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return [by_partition[index] for index in range(len(by_partition))]


def _unused_topic_id(image: MetadataImage, random: Random) -> Uuid:
    while True:
        topic_id = random_uuid(random)
        if topic_id not in image.topics_by_id:
            return topic_id


def _described(
    image: MetadataImage, settings: BrokerSettings, configs: dict[str, str]
) -> tuple[CreatableTopicConfigs, ...]:
    """All settings of a topic with `configs`, cached for topics of the request with the same settings."""
    layers = setting_layers(image, settings)
    described = describe_topic_settings(configs, settings, layers.cluster, layers.broker)
    return tuple(
        CreatableTopicConfigs(setting.name, setting.value, False, setting.source, False) for setting in described
    )


def _created(topic: NewTopic, topic_id: Uuid, configs: tuple[CreatableTopicConfigs, ...]) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(topic.placements),
        replication_factor=len(topic.placements[0]),
        configs=configs,
    )


def delete_topics(
    image: MetadataImage, settings: BrokerSettings, request: DeleteTopicsRequest, charge: Charge = free_of_charge
) -> Pausing[tuple[list[MetadataRecord], DeleteTopicsResponse]]:
    """The records that remove the named topics, and a result for each."""
    states = request.topics or tuple(DeleteTopicState(name) for name in request.topic_names)
    asked, repeated = yield from split_repeated(states, _deletion_key)
    records: list[MetadataRecord] = []
    results: list[DeletableTopicResult] = []
    by_id = {state.topic_id: None for state in asked if state.name is None}
    named_twice: dict[Uuid, None] = {}
    for state in asked:
        is_name = state.name is not None and state.topic_id == ZERO_UUID
        topic = image.topics_by_name.get(str(state.name)) if is_name else None
        if topic is not None and topic.topic_id in by_id:
            named_twice[topic.topic_id] = None
        yield
    for state in asked:
        if state.name is None and state.topic_id in named_twice:
            continue  # the response has it under its name
        try:
            _check_deletion(settings, request.timeout_ms)
            topic = _topic_to_delete(image, state)
            if topic.topic_id in named_twice:
                state = DeleteTopicState(topic.name, topic.topic_id)
                raise kafka_error("INVALID_REQUEST", _NAMED_TWICE)
            charge(len(topic.partitions))
        except KafkaError as error:
            results.append(_deletion_refused(state, error))
        else:
            records.append(RemoveTopicRecord(topic.topic_id))
            results.append(DeletableTopicResult(topic.name, topic.topic_id))
        yield
    if len(records) > MAX_BATCH_RECORDS:
        records, too_large = [], batch_too_large()
        results = list((yield from each_of(_deletion_refused(state, too_large) for state in asked)))
    results += yield from each_of(_repeated_deletion(state) for state in repeated)
    return records, DeleteTopicsResponse(responses=tuple(results))


def _deletion_refused(state: DeleteTopicState, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(state.name, state.topic_id, error.code, error.message)


def _deletion_key(state: DeleteTopicState) -> object:
    return (state.name, state.topic_id)


def _check_deletion(settings: BrokerSettings, timeout_ms: int) -> None:
    if not settings.delete_topic_enable:
        raise kafka_error("TOPIC_DELETION_DISABLED", "Topic deletion is disabled.")
    if timeout_ms <= 0:
        raise kafka_error("REQUEST_TIMED_OUT")


def _topic_to_delete(image: MetadataImage, state: DeleteTopicState) -> TopicImage:
    if state.name is None and state.topic_id == ZERO_UUID:
        raise kafka_error("INVALID_REQUEST", "Neither topic name nor id were specified.")
    if state.name is not None and state.topic_id != ZERO_UUID:
        raise kafka_error("INVALID_REQUEST", "You may not specify both topic name and topic id.")
    if state.name is not None:
        topic = image.topics_by_name.get(state.name)
        if topic is None:
            raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition.")
        return topic
    topic = image.topics_by_id.get(state.topic_id)
    if topic is None:
        raise kafka_error("UNKNOWN_TOPIC_ID", "This server does not host this topic ID.")
    return topic


def _repeated_deletion(state: DeleteTopicState) -> DeletableTopicResult:
    if state.name is None and state.topic_id == ZERO_UUID:
        return _deletion_refused(state, kafka_error("INVALID_REQUEST", "Neither topic name nor id were specified."))
    kind = "id" if state.name is None else "name"
    return _deletion_refused(state, kafka_error("INVALID_REQUEST", f"Duplicate topic {kind}."))
