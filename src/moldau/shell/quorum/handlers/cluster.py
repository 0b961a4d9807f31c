"""The quorum itself, as tools ask a controller for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.controller.quorum_description import in_version, quorum_response
from moldau.core.controller.topic_names import CLUSTER_METADATA_TOPIC
from moldau.errors import ERROR_CODES
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import DESCRIBE_CLUSTER
from moldau.wire.protocol.messages.cluster import DescribeQuorumRequest, DescribeQuorumResponse

if TYPE_CHECKING:
    from moldau.shell.quorum.role import QuorumRole


async def act_describe_quorum(
    quorum: QuorumRole, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """Versions 0-2. KIP-595; v1 times of the last fetch (KIP-836), v2 directory ids and nodes (KIP-853).

    Ignored on purpose: the throttle time, which this answer has no field for.
    """
    context.throttle()
    if not context.authorize(DESCRIBE_CLUSTER):
        return DescribeQuorumResponse(ERROR_CODES["CLUSTER_AUTHORIZATION_FAILED"])
    return described(quorum, request, context.api_version)


def described(quorum: QuorumRole, request: DescribeQuorumRequest, api_version: int) -> DescribeQuorumResponse:
    """What one who may ask is told; brokers of Apache Kafka ask for their clients, in an envelope."""
    asked = [(topic.topic_name, [row.partition_index for row in topic.partitions]) for topic in request.topics[:2]]
    if asked != [(CLUSTER_METADATA_TOPIC, [0])]:
        return DescribeQuorumResponse(ERROR_CODES["INVALID_REQUEST"])
    return in_version(quorum_response(quorum.describe()), api_version)
