"""DescribeProducers: the producers in the state of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.controller.topic_names import topic_name_fault
from moldau.errors import KafkaError, kafka_error
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import READ_TOPIC
from moldau.wire.protocol.messages.producer_ids import (
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
    ProducerState,
)

if TYPE_CHECKING:
    from moldau.core.log.producer_state import ProducerEntry
    from moldau.shell.broker.role import Broker

MAX_PRODUCERS_PER_RESPONSE = 50_000


async def act_describe_producers(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Versions 0-0. All of KIP-664.

    Better than Kafka: a response is bounded (44 for partitions beyond the bound), however often a request names the
    same partition. Ignored on purpose: nothing.
    """
    topics = []
    producers = 0
    for topic in request.topics:
        refusal = _topic_refusal(broker, context, topic.name)
        partitions = []
        for index in topic.partition_indexes:
            described = await _describe(broker, context, refusal, topic.name, index, producers)
            producers += len(described.active_producers)
            partitions.append(described)
            await context.pause()
        topics.append(DescribeProducersTopicResponse(topic.name, tuple(partitions)))
        await context.pause()
    return DescribeProducersResponse(throttle_time_ms=context.throttle(), topics=tuple(topics))


def _topic_refusal(broker: Broker, context: RequestContext, name: str) -> KafkaError | None:
    """The error of every partition of the topic: 17, 29, 3. None: no error."""
    fault = topic_name_fault(name)
    if fault is not None:
        return kafka_error("INVALID_TOPIC_EXCEPTION", fault)
    if not context.authorize(READ_TOPIC, name):
        return kafka_error(READ_TOPIC.refusal, READ_TOPIC.refusal_text)
    if name.encode() not in broker.partitions.by_name:
        return kafka_error("UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition.")
    return None


async def _describe(
    broker: Broker, context: RequestContext, refusal: KafkaError | None, topic: str, index: int, described: int
) -> DescribeProducersPartitionResponse:
    """Describes one partition. `described`: the number of producers in the response so far."""
    if refusal is not None:
        return DescribeProducersPartitionResponse(index, refusal.code, refusal.message)
    try:
        partition = broker.partitions.find(topic, index)
        if partition.is_offline:
            raise kafka_error("KAFKA_STORAGE_ERROR")
    except KafkaError as error:
        return DescribeProducersPartitionResponse(index, error.code)
    if described and described + len(partition.log.producer_state.entries) > MAX_PRODUCERS_PER_RESPONSE:
        too_many = kafka_error("POLICY_VIOLATION", "Too many producers for one response: ask for fewer partitions.")
        return DescribeProducersPartitionResponse(index, too_many.code, too_many.message)
    active = []
    for producer_id, entry in list(partition.log.producer_state.entries.items()):
        active.append(_state(producer_id, entry))
        await context.pause()
    return DescribeProducersPartitionResponse(index, active_producers=tuple(active))


def _state(producer_id: int, entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_first_offset,
    )
