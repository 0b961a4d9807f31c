"""InitProducerId: producer ids for idempotent and transactional producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.transactions.requests import InitProducerId
from moldau.errors import ERROR_CODES, KafkaError
from moldau.shell.broker.handlers.transactions import known_code, may_write
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import IDEMPOTENT_WRITE, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from moldau.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

INVALID_REQUEST = ERROR_CODES["INVALID_REQUEST"]
FENCED_FROM = 4
"""The first version with PRODUCER_FENCED (KIP-588)."""


async def act_init_producer_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Versions 0-5. v2 flexible (KIP-482), v3 known id and epoch (KIP-360), v4 PRODUCER_FENCED (KIP-588), v5
    transactions v2 (KIP-890).

    A transactional id gets its producer id, with an epoch that fences its earlier producer. Ignored on purpose: the id
    and epoch of an idempotent producer, which gets a new id, as from Kafka.
    """
    throttle_time_ms = context.throttle()

    def refused(code: int) -> InitProducerIdResponse:
        return InitProducerIdResponse(throttle_time_ms=throttle_time_ms, error_code=code, producer_epoch=-1)

    transactional_id = request.transactional_id
    if transactional_id is not None:
        if not may_write(context, transactional_id):
            return refused(WRITE_TRANSACTIONAL_ID.refusal)
    elif not context.authorize(IDEMPOTENT_WRITE) and not context.authorize_any(WRITE_TOPIC):
        return refused(IDEMPOTENT_WRITE.refusal)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return refused(INVALID_REQUEST)
    if transactional_id is not None:
        asked = InitProducerId(
            transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
        )
        answer = await context.wait(broker.coordination.transactions.change(asked))
        code = known_code(answer.error_code, context.api_version, FENCED_FROM)
        return InitProducerIdResponse(throttle_time_ms, code, answer.producer_id, answer.producer_epoch)
    producer_id = broker.coordination.producer_ids.take()
    if producer_id is None:
        try:
            producer_id = await context.wait(broker.coordination.producer_ids.allocate())
        except KafkaError as error:
            return refused(error.code)
    return InitProducerIdResponse(throttle_time_ms=throttle_time_ms, producer_id=producer_id, producer_epoch=0)
