"""Blocks of producer ids: each id is given out once in the life of a cluster (KIP-730)."""

from __future__ import annotations

from moldau.core.controller.requests import AllocateProducerIds, ProducerIdBlock
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import MetadataImage
from moldau.errors import kafka_error
from moldau.types import ProducerId
from moldau.wire.protocol.messages.metadata_records import ProducerIdsRecord

BLOCK_SIZE = 1_000
_MAX_PRODUCER_ID = (1 << 63) - 1


def allocate_producer_ids(
    image: MetadataImage, request: AllocateProducerIds
) -> tuple[list[MetadataRecord], ProducerIdBlock]:
    """The next block.

    Raises BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, and UNKNOWN_SERVER_ERROR when none is left.
    """
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        raise kafka_error("BROKER_ID_NOT_REGISTERED")
    if broker.epoch != request.broker_epoch:
        raise kafka_error("STALE_BROKER_EPOCH")
    first = image.next_producer_id
    if first > _MAX_PRODUCER_ID - BLOCK_SIZE:
        raise kafka_error("UNKNOWN_SERVER_ERROR", "Exhausted all producerIds")
    record = ProducerIdsRecord(request.broker_id, request.broker_epoch, first + BLOCK_SIZE)
    return [record], ProducerIdBlock(ProducerId(first), BLOCK_SIZE)
