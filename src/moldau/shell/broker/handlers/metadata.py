"""Metadata: brokers, topics, partitions and their leaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.core.config.topic_settings import INTERNAL_TOPICS
from moldau.core.metadata.image import NO_LEADER, PartitionImage, TopicImage
from moldau.errors import ERROR_CODES
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import CLUSTER_RIGHTS, CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC, TOPIC_RIGHTS
from moldau.types import ZERO_UUID, Uuid, distinct
from moldau.wire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

ALL_BY_NULL_FROM = 1
ROWS_BETWEEN_PAUSES = 50
AUTO_CREATE_FLAG_FROM = 4
LISTENER_NOT_FOUND_FROM = 6
LOOKUP_BY_ID_FROM = 12
UNKNOWN_TOPIC_OR_PARTITION = ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"]
INVALID_TOPIC_EXCEPTION = ERROR_CODES["INVALID_TOPIC_EXCEPTION"]
INVALID_REQUEST = ERROR_CODES["INVALID_REQUEST"]
UNKNOWN_TOPIC_ID = ERROR_CODES["UNKNOWN_TOPIC_ID"]

LEADER_NOT_AVAILABLE = ERROR_CODES["LEADER_NOT_AVAILABLE"]
LISTENER_NOT_FOUND = ERROR_CODES["LISTENER_NOT_FOUND"]

NO_OPERATIONS = -2147483648


async def act_metadata(broker: Broker, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Versions 0-13. v1 null for all topics, v2 cluster id (KIP-78), v3 throttle time, v4 auto-creation flag (KIP-204),
    v5 offline replicas (KIP-112), v7 leader epoch (KIP-320), v8 authorized operations (KIP-430), v10 topic ids and v12
    lookup by them (KIP-516), v11 no cluster operations (KIP-700), v13 an error of the whole request (KIP-1102).

    An unknown topic that may be created gets 3 and is created; the client asks again. A partition gets 5 if this client
    cannot reach its leader, or 72 if the leader has no listener of that name. Ignored on purpose: nothing.
    """
    version, image = context.api_version, broker.image
    serving = broker.addresses.serving(context)
    topics: list[MetadataResponseTopic] = []
    if request.topics is None or (version < ALL_BY_NULL_FROM and not request.topics):
        for topic in [image.topics_by_name[name] for name in sorted(image.topics_by_name)]:
            if context.authorize(DESCRIBE_TOPIC, topic.name):
                topics.append(await _described(broker, context, request, topic, serving))
            await context.pause()
    else:
        for asked in distinct(request.topics):
            if topics:
                await context.pause()
            found = _find(broker, context, request, asked)
            if isinstance(found, TopicImage):
                found = await _described(broker, context, request, found, serving)
            topics.append(found)
    return _response(broker, context, request, topics, serving)


def _response(
    broker: Broker,
    context: RequestContext,
    request: MetadataRequest,
    topics: list[MetadataResponseTopic],
    serving: Mapping[int, tuple[str, int]],
) -> MetadataResponse:
    cluster_operations = NO_OPERATIONS
    if request.include_cluster_authorized_operations:
        cluster_operations = context.authorized_operations(CLUSTER_RIGHTS)
    return MetadataResponse(
        throttle_time_ms=context.throttle(),
        brokers=tuple(
            [
                MetadataResponseBroker(broker_id, host, port, broker.image.brokers[broker_id].rack)
                for broker_id, (host, port) in serving.items()
            ]
        ),
        cluster_id=broker.image.cluster_id,
        controller_id=broker.node_id,
        topics=tuple(topics),
        cluster_authorized_operations=cluster_operations,
    )


def _find(
    broker: Broker, context: RequestContext, request: MetadataRequest, asked: MetadataRequestTopic
) -> TopicImage | MetadataResponseTopic:
    """The topic, or an error row if it does not exist or is not for this client."""
    if context.api_version < LOOKUP_BY_ID_FROM and (asked.name is None or asked.topic_id != ZERO_UUID):
        # v10 and v11 can ask by id, but their answers must have a name.
        return _error(asked.name or "", ZERO_UUID, INVALID_REQUEST)
    if asked.name is None:
        if asked.topic_id == ZERO_UUID:
            return _error(None, ZERO_UUID, INVALID_REQUEST)
        topic = broker.image.topics_by_id.get(asked.topic_id)
        if topic is None:
            return _error(None, asked.topic_id, UNKNOWN_TOPIC_ID)
        if not context.authorize(DESCRIBE_TOPIC, topic.name):
            return _error(None, asked.topic_id, DESCRIBE_TOPIC.refusal)  # as in Kafka, an id is no secret
        return topic
    name = asked.name
    if not context.authorize(DESCRIBE_TOPIC, name):
        return _error(name, ZERO_UUID, DESCRIBE_TOPIC.refusal)
    topic = broker.image.topics_by_name.get(name)
    if topic is not None:
        return topic
    is_allowed = context.api_version < AUTO_CREATE_FLAG_FROM or request.allow_auto_topic_creation
    if is_allowed and broker.settings.auto_create_topics_enable:
        may_create = context.authorize(CREATE_CLUSTER) or context.authorize(CREATE_TOPIC, name)
        if not may_create:
            return _error(name, ZERO_UUID, CREATE_TOPIC.refusal)
        if not broker.coordination.topic_creation.begin(name):
            return _error(name, ZERO_UUID, INVALID_TOPIC_EXCEPTION)
    elif not broker.coordination.topic_creation.is_valid_name(name):
        return _error(name, ZERO_UUID, INVALID_TOPIC_EXCEPTION)
    return _error(name, ZERO_UUID, UNKNOWN_TOPIC_OR_PARTITION)


def _error(name: str | None, topic_id: Uuid, code: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id)


async def _described(
    broker: Broker,
    context: RequestContext,
    request: MetadataRequest,
    topic: TopicImage,
    serving: Mapping[int, tuple[str, int]],
) -> MetadataResponseTopic:
    operations = NO_OPERATIONS
    if request.include_topic_authorized_operations:
        operations = context.authorized_operations(TOPIC_RIGHTS, topic.name)
    rows: list[MetadataResponsePartition] = []
    for index, partition in topic.partitions.items():
        rows.append(_row(broker, context, index, partition, serving))
        if len(rows) % ROWS_BETWEEN_PAUSES == 0:
            await context.pause(ROWS_BETWEEN_PAUSES)
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(rows),
        topic_authorized_operations=operations,
    )


def _row(
    broker: Broker,
    context: RequestContext,
    index: int,
    partition: PartitionImage,
    serving: Mapping[int, tuple[str, int]],
) -> MetadataResponsePartition:
    leader, epoch, replicas = partition.leader, partition.leader_epoch, partition.replicas
    if leader in serving and len(replicas) == 1:
        return MetadataResponsePartition(0, index, leader, epoch, replicas, partition.isr)
    error_code = 0
    if leader not in serving:
        is_deaf = leader in broker.image.brokers and context.api_version >= LISTENER_NOT_FOUND_FROM
        leader, error_code = NO_LEADER, LISTENER_NOT_FOUND if is_deaf else LEADER_NOT_AVAILABLE
    offline = broker.image.offline_replicas(partition, serving)
    return MetadataResponsePartition(error_code, index, leader, epoch, replicas, partition.isr, offline)
