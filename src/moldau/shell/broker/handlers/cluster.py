"""DescribeCluster and DescribeQuorum: the brokers and the quorum of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.controller.quorum_description import in_version
from moldau.core.controller.topic_names import CLUSTER_METADATA_TOPIC
from moldau.core.metadata.image import BrokerImage
from moldau.errors import ERROR_CODES, KafkaError
from moldau.shell.network.cluster_description import NO_OPERATIONS, EndpointType, refused_endpoints
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import CLUSTER_RIGHTS, DESCRIBE_CLUSTER
from moldau.wire.protocol.messages.cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumPartition,
    QuorumTopic,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

UNKNOWN_TOPIC_OR_PARTITION = ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"]


async def act_describe_cluster(
    broker: Broker, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Versions 0-2. KIP-700; v1 endpoint types (KIP-919), v2 fenced brokers (KIP-1073).

    Only a controller's listener describes controllers: 114 here. Ignored on purpose: nothing.
    """
    throttle_time_ms = context.throttle()
    refused = refused_endpoints(request.endpoint_type, EndpointType.BROKER, context.api_version)
    if refused is not None:
        return DescribeClusterResponse(throttle_time_ms, *refused)
    operations = NO_OPERATIONS
    if request.include_cluster_authorized_operations:
        operations = context.authorized_operations(CLUSTER_RIGHTS)
    described = (
        _described(broker, context, registered)
        for _, registered in sorted(broker.image.brokers.items())
        if request.include_fenced_brokers or not registered.is_fenced
    )
    return DescribeClusterResponse(
        throttle_time_ms=throttle_time_ms,
        cluster_id=broker.image.cluster_id,
        controller_id=broker.node_id,
        brokers=tuple(row for row in described if row is not None),
        cluster_authorized_operations=operations,
    )


def _described(broker: Broker, context: RequestContext, registered: BrokerImage) -> DescribeClusterBroker | None:
    """A broker with its address on the client's listener; None if it has no listener of that name."""
    address = broker.addresses.of(registered.broker_id, context)
    if address is None:
        return None
    return DescribeClusterBroker(registered.broker_id, *address, registered.rack, registered.is_fenced)


async def act_describe_quorum(
    broker: Broker, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """Versions 0-2. KIP-595; v1 times of the last fetch (KIP-836), v2 directory ids and nodes (KIP-853).

    Answers only for `__cluster_metadata`, partition 0, alone, with the leader's description. Ignored on purpose: the
    throttle time, which this answer has no field for.
    """
    context.throttle()
    try:
        context.check(DESCRIBE_CLUSTER)
    except KafkaError as error:
        return DescribeQuorumResponse(error.code, error.message)
    asked = [(topic.topic_name, [row.partition_index for row in topic.partitions]) for topic in request.topics[:2]]
    if asked != [(CLUSTER_METADATA_TOPIC, [0])]:
        message = "This server does not host this topic-partition."
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                rows.append(QuorumPartition(row.partition_index, UNKNOWN_TOPIC_OR_PARTITION, message))
                await context.pause()
            topics.append(QuorumTopic(topic.topic_name, tuple(rows)))
            await context.pause()
        return DescribeQuorumResponse(topics=tuple(topics))
    described = await context.wait(broker.controller.describe_quorum())
    return in_version(described, context.api_version)
