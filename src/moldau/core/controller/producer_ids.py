"""AllocateProducerIds: blocks of producer ids, each id given out once in the life of a cluster (KIP-730)."""

from __future__ import annotations

from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import MetadataImage
from moldau.errors import kafka_error
from moldau.wire.protocol.messages.metadata_records import ProducerIdsRecord
from moldau.wire.protocol.messages.producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

BLOCK_SIZE = 1_000
_MAX_PRODUCER_ID = (1 << 63) - 1


def allocate_producer_ids(
    image: MetadataImage, request: AllocateProducerIdsRequest
) -> tuple[list[MetadataRecord], AllocateProducerIdsResponse]:
    """The next block.

    Raises STALE_BROKER_EPOCH, and UNKNOWN_SERVER_ERROR if no ids are left.
    """
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise kafka_error("STALE_BROKER_EPOCH")
    first = image.next_producer_id
    if first > _MAX_PRODUCER_ID - BLOCK_SIZE:
        raise kafka_error("UNKNOWN_SERVER_ERROR", "Exhausted all producerIds")
    record = ProducerIdsRecord(request.broker_id, request.broker_epoch, first + BLOCK_SIZE)
    return [record], AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
