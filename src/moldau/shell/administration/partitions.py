"""Partitions of existing topics: additions, leaders, replicas."""

from __future__ import annotations

import msgspec

from moldau.core.controller import leader_elections, partitions, reassignments
from moldau.core.controller.requests import STRICT_FROM, metered
from moldau.errors import KafkaError
from moldau.shell.administration.asking import Administered, ask_controller
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import ALTER_CLUSTER, ALTER_TOPIC, DESCRIBE_CLUSTER
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


async def act_create_partitions(
    node: Administered, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Versions 0-3. KIP-195; v2 flexible (KIP-482), v3 may be answered 89 (KIP-599).

    Answers once the records are committed and this broker serves the partitions. More than 10,000 new ones get 44, and
    none is added. Ignored on purpose: the timeout beyond its sign (one node decides at once).
    """
    allowed: list[CreatePartitionsTopic] = []
    refused: dict[str, None] = {}
    for topic in request.topics:
        if context.authorize(ALTER_TOPIC, topic.name):
            allowed.append(topic)
        else:
            refused[topic.name] = None
        await context.pause()
    unauthorized = tuple(CreatePartitionsTopicResult(name, ALTER_TOPIC.refusal) for name in refused)
    quota = context.mutation_quota(STRICT_FROM[ApiKey.CREATE_PARTITIONS])
    asked = msgspec.structs.replace(request, topics=tuple(allowed))
    try:
        response: CreatePartitionsResponse = await context.wait(node.submit(metered(asked, quota), context))
    except KafkaError as error:
        names = dict.fromkeys(topic.name for topic in allowed)
        response = CreatePartitionsResponse(results=tuple(partitions.refused(name, error) for name in names))
    throttle_time_ms = context.throttle(mutation_ms=response.throttle_time_ms)
    return msgspec.structs.replace(
        response, throttle_time_ms=throttle_time_ms, results=(*response.results, *unauthorized)
    )


async def act_elect_leaders(
    node: Administered, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Versions 0-2. KIP-183; v1 unclean elections and the error of the whole (KIP-460), v2 flexible (KIP-482).

    Ignored on purpose: the timeout beyond its sign (one node decides at once).
    """
    return await ask_controller(node, context, ALTER_CLUSTER, request, leader_elections.refused)


async def act_alter_partition_reassignments(
    node: Administered, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Versions 0-1. KIP-455; v1 can keep the replication factor (KIP-860).

    With one node, a reassignment to it is complete at once. A reassignment to a registered broker that is gone waits
    until it is cancelled. Ignored on purpose: the timeout beyond its sign (one node decides at once).
    """
    return await ask_controller(node, context, ALTER_CLUSTER, request, reassignments.refused)


async def act_list_partition_reassignments(
    node: Administered, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Versions 0-0. KIP-455.

    Ignored on purpose: the timeout (answered from the metadata that this broker has).
    """
    try:
        context.check(DESCRIBE_CLUSTER)
        response = await context.finish(reassignments.list_partition_reassignments(node.image, request))
    except KafkaError as error:
        response = ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
    return msgspec.structs.replace(response, throttle_time_ms=context.throttle())
