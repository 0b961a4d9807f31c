"""Finds the partitions that a Produce request names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.replication.partition import Partition
from moldau.errors import kafka_error
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import WRITE_TOPIC
from moldau.wire.protocol.fast_produce import ProduceEntry

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

TOPIC_IDS_FROM = 13

Entries = list[ProduceEntry]


def writable_partition(broker: Broker, context: RequestContext, topic: bytes, index: int) -> Partition:
    """The partition, if the client may write to it. Raises 100, 3, 29, 17, 6."""
    if context.api_version >= TOPIC_IDS_FROM:
        hosted = broker.partitions.by_id.get(topic)
        if hosted is None:
            raise kafka_error("UNKNOWN_TOPIC_ID")
        if not context.authorize(WRITE_TOPIC, hosted.name):
            raise kafka_error("TOPIC_AUTHORIZATION_FAILED")
    else:
        if not context.authorize(WRITE_TOPIC, topic):
            raise kafka_error("TOPIC_AUTHORIZATION_FAILED")
        hosted = broker.partitions.by_name.get(topic)
        if hosted is None:
            raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION")
    if hosted.is_internal:
        raise kafka_error("INVALID_TOPIC_EXCEPTION", "only the broker writes to an internal topic")
    return hosted.partitions.get(index) or hosted.find(index)
