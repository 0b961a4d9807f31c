"""Finds the partitions that a Fetch request names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.core.replication.partition import Partition
from moldau.errors import kafka_error
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import READ_TOPIC
from moldau.wire.protocol.fast_fetch import TOPIC_IDS_FROM, FetchEntry

if TYPE_CHECKING:
    from moldau.shell.broker.partitions import HostedTopic
    from moldau.shell.broker.role import Broker


def hosted_topics(broker: Broker, context: RequestContext) -> Mapping[bytes, HostedTopic]:
    """The topics of this broker, by the key that the version of the request uses."""
    return broker.partitions.by_id if context.api_version >= TOPIC_IDS_FROM else broker.partitions.by_name


def readable_partition(broker: Broker, context: RequestContext, entry: FetchEntry, is_follower: bool) -> Partition:
    """The partition, if the reader may read it. A follower's right, ClusterAction, is checked elsewhere. Raises 100,
    29, 3, 6."""
    topic = entry[0]
    if context.api_version >= TOPIC_IDS_FROM:
        hosted = broker.partitions.by_id.get(topic)
        if hosted is None:
            raise kafka_error("UNKNOWN_TOPIC_ID")
        if not is_follower and not context.authorize(READ_TOPIC, hosted.name):
            raise kafka_error("TOPIC_AUTHORIZATION_FAILED")
    else:
        if not is_follower and not context.authorize(READ_TOPIC, topic):
            raise kafka_error("TOPIC_AUTHORIZATION_FAILED")
        hosted = broker.partitions.by_name.get(topic)
        if hosted is None:
            raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION")
    return hosted.partitions.get(entry[1]) or hosted.find(entry[1])
