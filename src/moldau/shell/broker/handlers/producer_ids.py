"""InitProducerId: producer ids for idempotence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.errors import ERROR_CODES, KafkaError
from moldau.shell.network.context import CLUSTER_NAME, Operation, RequestContext, Resource
from moldau.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

CLUSTER_AUTHORIZATION_FAILED = ERROR_CODES["CLUSTER_AUTHORIZATION_FAILED"]
INVALID_REQUEST = ERROR_CODES["INVALID_REQUEST"]
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = ERROR_CODES["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"]


async def act_init_producer_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Versions 0-5. v2 flexible (KIP-482), v3 known id and epoch (KIP-360), v4 PRODUCER_FENCED (KIP-588), v5
    transactions v2 (KIP-890).

    Transactions are not served: a transactional id gets 53, as in FindCoordinator. Ignored on purpose: the id and
    epoch of an idempotent producer, which gets a fresh id, as from Kafka.
    """
    throttle_time_ms = context.throttle()

    def refused(code: int) -> InitProducerIdResponse:
        return InitProducerIdResponse(throttle_time_ms=throttle_time_ms, error_code=code, producer_epoch=-1)

    transactional_id = request.transactional_id
    if transactional_id is not None:
        may_write = context.authorize(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)
        is_empty = may_write and transactional_id == ""
        return refused(INVALID_REQUEST if is_empty else TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not context.authorize(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME):
        return refused(CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return refused(INVALID_REQUEST)
    producer_id = broker.producer_ids.take()
    if producer_id is not None:
        return InitProducerIdResponse(throttle_time_ms=throttle_time_ms, producer_id=producer_id, producer_epoch=0)

    try:
        producer_id = await context.wait(broker.producer_ids.allocate())
    except KafkaError as error:
        return refused(error.code)
    return InitProducerIdResponse(throttle_time_ms=throttle_time_ms, producer_id=producer_id, producer_epoch=0)
