"""OffsetForLeaderEpoch: the end offset of a leader epoch, for clients that check for truncation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.errors import KafkaError, kafka_error
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import CLUSTER_ACTION, DESCRIBE_TOPIC
from moldau.wire.protocol.messages.leader_epochs import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

NOT_ASKED = -1


async def act_offset_for_leader_epoch(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Versions 2-4. v2 current leader epoch (KIP-320), v3 replica id (KIP-392), v4 flexible (KIP-482); epochs as of
    KIP-101 and KIP-279.

    Ignored on purpose: the replica id (all readers get the same answer, as from Apache Kafka).
    """
    topics = []
    is_broker = context.authorize(CLUSTER_ACTION)
    for topic in request.topics:
        is_allowed = is_broker or context.authorize(DESCRIBE_TOPIC, topic.topic)
        partitions = []
        for asked in topic.partitions:
            partitions.append(_look_up(broker, is_allowed, topic.topic, asked))
            await context.pause()
        topics.append(OffsetForLeaderTopicResult(topic.topic, tuple(partitions)))
        await context.pause()
    return OffsetForLeaderEpochResponse(throttle_time_ms=context.throttle(), topics=tuple(topics))


def _look_up(broker: Broker, is_allowed: bool, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        if not is_allowed:
            raise kafka_error("TOPIC_AUTHORIZATION_FAILED")
        partition = broker.partitions.find(topic, asked.partition)
        if asked.current_leader_epoch < NOT_ASKED:
            raise kafka_error("FENCED_LEADER_EPOCH")
        partition.check_leader(asked.current_leader_epoch)
        if partition.is_offline:
            raise kafka_error("KAFKA_STORAGE_ERROR")
    except KafkaError as error:
        return EpochEndOffset(error.code, asked.partition)
    epoch, end_offset = partition.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(0, asked.partition, epoch, end_offset)
