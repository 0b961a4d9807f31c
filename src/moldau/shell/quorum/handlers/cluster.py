"""Describes the quorum and its controllers to tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.controller.quorum_description import in_version, quorum_response
from moldau.core.controller.topic_names import CLUSTER_METADATA_TOPIC
from moldau.errors import ERROR_CODES
from moldau.shell.network.cluster_description import NO_OPERATIONS, EndpointType, refused_endpoints
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import CLUSTER_RIGHTS, DESCRIBE_CLUSTER
from moldau.wire.protocol.messages.cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)

if TYPE_CHECKING:
    from moldau.shell.quorum.role import QuorumRole


async def act_describe_cluster(
    quorum: QuorumRole, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Versions 0-2. KIP-700; v1 endpoint types (KIP-919): the registered controllers at their listener of that name.

    A request for brokers belongs on a broker's listener and gets 114 here. Ignored on purpose: fenced brokers (v2).
    """
    throttle_time_ms = context.throttle()
    refused = refused_endpoints(request.endpoint_type, EndpointType.CONTROLLER, context.api_version)
    if refused is not None:
        return DescribeClusterResponse(throttle_time_ms, *refused, endpoint_type=EndpointType.CONTROLLER)
    operations = NO_OPERATIONS
    if request.include_cluster_authorized_operations:
        operations = context.authorized_operations(CLUSTER_RIGHTS)
    controllers = [controller for _, controller in sorted(quorum.image.controllers.items())]
    return DescribeClusterResponse(
        throttle_time_ms=throttle_time_ms,
        endpoint_type=EndpointType.CONTROLLER,
        cluster_id=quorum.identity.cluster_id,
        controller_id=quorum.leader_id,
        brokers=tuple(
            DescribeClusterBroker(controller.controller_id, point.host, point.port)
            for controller in controllers
            for point in controller.listeners
            if point.name == context.session.listener_name
        ),
        cluster_authorized_operations=operations,
    )


async def act_describe_quorum(
    quorum: QuorumRole, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """Versions 0-2. KIP-595; v1 times of the last fetch (KIP-836), v2 directory ids and nodes (KIP-853).

    Ignored on purpose: the throttle time, for which this answer has no field.
    """
    context.throttle()
    if not context.authorize(DESCRIBE_CLUSTER):
        return DescribeQuorumResponse(DESCRIBE_CLUSTER.refusal)
    return described(quorum, request, context.api_version)


def described(quorum: QuorumRole, request: DescribeQuorumRequest, api_version: int) -> DescribeQuorumResponse:
    """The description for an authorized client; brokers of Apache Kafka ask for their clients, in an envelope."""
    asked = [(topic.topic_name, [row.partition_index for row in topic.partitions]) for topic in request.topics[:2]]
    if asked != [(CLUSTER_METADATA_TOPIC, [0])]:
        return DescribeQuorumResponse(ERROR_CODES["INVALID_REQUEST"])
    return in_version(quorum_response(quorum.describe()), api_version)
