"""Requests of brokers to the active controller (KIP-497, 631, 730, 858, 919)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from moldau.errors import KafkaError
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import CLUSTER_ACTION
from moldau.shell.peers.peer import CLIENT_ID
from moldau.wire.protocol.messages.broker_lifecycle import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from moldau.wire.protocol.messages.in_sync_replicas import AlterPartitionRequest, AlterPartitionResponse
from moldau.wire.protocol.messages.producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from moldau.shell.quorum.role import QuorumRole

Response = TypeVar("Response", bound=msgspec.Struct)


async def _ask(
    quorum: QuorumRole, context: RequestContext, request: Any, refused: Callable[[KafkaError], Response]
) -> Response:
    """The controller's answer; `refused` makes the answer to a request that is rejected as a whole or not
    authorized."""
    try:
        context.check(CLUSTER_ACTION)
        return cast(Response, await context.wait(quorum.submit(request)))
    except KafkaError as error:
        return refused(error)


async def act_alter_partition(
    quorum: QuorumRole, context: RequestContext, request: AlterPartitionRequest
) -> AlterPartitionResponse:
    """Versions 2-3. v2 topic ids (KIP-841), v3 broker epochs (KIP-903). Ignored on purpose: nothing."""
    return await _ask(quorum, context, request, lambda error: AlterPartitionResponse(error_code=error.code))


async def act_broker_registration(
    quorum: QuorumRole, context: RequestContext, request: BrokerRegistrationRequest
) -> BrokerRegistrationResponse:
    """Versions 0-4. v2 log directories (KIP-858), v3 the last clean stop (KIP-966), v4 features from level 0.

    Ignored on purpose: a broker's migration from ZooKeeper (v1), which Kafka 4 no longer has.
    """
    answer = await _ask(quorum, context, request, lambda error: BrokerRegistrationResponse(error_code=error.code))
    if not answer.error_code:
        quorum.levels.registered(request.broker_id, quorum.image.features, is_ours=context.client_id == CLIENT_ID)
    return answer


async def act_broker_heartbeat(
    quorum: QuorumRole, context: RequestContext, request: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse:
    """Versions 0-2. v1 failed log directories (KIP-858), v2 cordoned ones (KIP-1066). Ignored on purpose: nothing."""
    answer = await _ask(quorum, context, request, lambda error: BrokerHeartbeatResponse(error_code=error.code))
    if not answer.error_code:
        quorum.heartbeats.heard(request, context.reply)
    return answer


async def act_allocate_producer_ids(
    quorum: QuorumRole, context: RequestContext, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """Version 0 (KIP-730). Ignored on purpose: nothing."""
    return await _ask(quorum, context, request, lambda error: AllocateProducerIdsResponse(error_code=error.code))


async def act_controller_registration(
    quorum: QuorumRole, context: RequestContext, request: ControllerRegistrationRequest
) -> ControllerRegistrationResponse:
    """Version 0 (KIP-919). Ignored on purpose: nothing."""
    answer = await _ask(
        quorum,
        context,
        request,
        lambda error: ControllerRegistrationResponse(error_code=error.code, error_message=error.message),
    )
    if not answer.error_code:
        quorum.levels.registered(request.controller_id, quorum.image.features, is_ours=context.client_id == CLIENT_ID)
    return answer


async def act_assign_replicas_to_dirs(
    quorum: QuorumRole, context: RequestContext, request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    """Version 0 (KIP-858). Ignored on purpose: nothing."""
    return await _ask(quorum, context, request, lambda error: AssignReplicasToDirsResponse(error_code=error.code))
