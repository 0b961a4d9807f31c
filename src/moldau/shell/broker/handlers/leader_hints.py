"""Tells a client that asked the wrong broker the leader and its address (KIP-951).

The client sends its next request there, without a Metadata request before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.core.metadata.image import TopicImage
from moldau.shell.network.context import RequestContext
from moldau.types import Uuid
from moldau.wire.protocol.elsewhere import CurrentLeader, LeaderNode

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

TOPIC_IDS_FROM = 13
"""Version of both Produce and Fetch."""


def name_leaders(
    broker: Broker, context: RequestContext, results: list[Any], codes: tuple[int, ...]
) -> list[LeaderNode]:
    """Puts the leader into each result of Produce or Fetch with one of `codes`, as its seventh field. Returns the
    addresses of the leaders that are not fenced."""
    nodes: dict[int, LeaderNode] = {}
    for place, result in enumerate(results):
        if result[2] not in codes:
            continue
        leader = _leader_of(broker, context, result[0], result[1])
        if leader is None:
            continue
        results[place] = (*result[:6], leader, *result[7:])
        registered = broker.image.brokers.get(leader.leader_id)
        address = broker.addresses.of(leader.leader_id, context)
        if registered is not None and not registered.is_fenced and address is not None:
            nodes[leader.leader_id] = LeaderNode(leader.leader_id, *address, registered.rack)
    return list(nodes.values())


def _leader_of(broker: Broker, context: RequestContext, topic: bytes, index: int) -> CurrentLeader | None:
    image = broker.image
    found: TopicImage | None
    if context.api_version >= TOPIC_IDS_FROM:
        found = image.topics_by_id.get(Uuid(topic))
    else:
        found = image.topics_by_name.get(topic.decode())
    partition = None if found is None else found.partitions.get(index)
    return None if partition is None else CurrentLeader(partition.leader, partition.leader_epoch)
