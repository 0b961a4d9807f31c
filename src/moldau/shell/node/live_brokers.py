"""Finds other brokers of a cluster that still answer, and the data that a node which continues alone would lose."""

from __future__ import annotations

import asyncio

import msgspec

from moldau.core.metadata.image import BrokerImage, BrokerListener
from moldau.shell.node.recover import Remains
from moldau.shell.peers.peer import NoAnswerError, Peer
from moldau.transport.network import Network
from moldau.types import TopicPartition
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.partitions import (
    DescribeTopicPartitionsCursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)

PATIENCE_MS = 2_000
"""The time-out for a broker's answer; all brokers are asked concurrently."""

_PLAINTEXT = 0


class LiveBroker(msgspec.Struct, frozen=True):
    """A broker that answered. `ahead`: the partitions in which its metadata has it in sync or as an eligible leader
    (KIP-966), but not the node of the remains, which has a replica or does not know the partition. A broker's metadata
    is at least as new as a stopped node's."""

    broker_id: int
    address: BrokerListener
    ahead: tuple[TopicPartition, ...]


async def find_live_brokers(remains: Remains, network: Network) -> list[LiveBroker]:
    """In the order of their ids. Asks every other broker in the metadata that has a listener without TLS and SASL,
    because nodes have no credentials."""
    return [
        found for found in await asyncio.gather(*(_ask(each, remains, network) for each in remains.others)) if found
    ]


async def _ask(broker: BrokerImage, remains: Remains, network: Network) -> LiveBroker | None:
    address = next((each for each in broker.listeners if each.security_protocol == _PLAINTEXT), None)
    if address is None:
        return None
    peer = Peer(address, network)
    try:
        answer = await peer.request(MetadataRequest(topics=()), PATIENCE_MS)
        if answer.cluster_id != remains.properties.cluster_id:
            return None  # another program now listens there
        return LiveBroker(broker.broker_id, address, await _ahead(peer, broker.broker_id, remains))
    except NoAnswerError:
        return None
    finally:
        peer.close()


async def _ahead(peer: Peer, broker_id: int, remains: Remains) -> tuple[TopicPartition, ...]:
    me, survivor = remains.properties.node_id, remains.survivor
    known = {*survivor.whole, *survivor.lacking, *survivor.gone}
    found: list[TopicPartition] = []
    cursor: DescribeTopicPartitionsCursor | None = None
    while True:
        page: DescribeTopicPartitionsResponse = await peer.request(
            DescribeTopicPartitionsRequest(cursor=cursor), PATIENCE_MS
        )
        for topic in page.topics:
            for row in topic.partitions:
                place = TopicPartition(topic.name or "", row.partition_index)
                able = (*row.isr_nodes, *(row.eligible_leader_replicas or ()))
                if broker_id in able and me not in able and (me in row.replica_nodes or place not in known):
                    found.append(place)
        # an empty page would repeat forever
        if page.next_cursor is None or not page.topics:
            return tuple(found)
        cursor = page.next_cursor
