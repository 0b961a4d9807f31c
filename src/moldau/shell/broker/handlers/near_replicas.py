"""Finds a replica in the rack of a consumer, if `replica.selector.class` asks for it (KIP-392)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.config.broker_settings import RACK_AWARE
from moldau.core.replication.partition import Partition
from moldau.shell.network.context import RequestContext
from moldau.wire.protocol.elsewhere import PreferredReadReplica

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker


def near_replica(
    broker: Broker, context: RequestContext, partition: Partition, rack: str, offset: int
) -> PreferredReadReplica | None:
    """The in-sync replica of `rack` that holds `offset` and has the most of the log, as in Kafka's
    RackAwareReplicaSelector. None: this broker serves."""
    leader = partition.leader
    if leader is None or broker.settings.replica_selector_class != RACK_AWARE or broker.settings.broker_rack == rack:
        return None
    brokers = broker.image.brokers
    near = [
        (end_offset, caught_up_ms, replica)
        for replica, end_offset, caught_up_ms in leader.in_sync_holders(offset)
        if replica in brokers and brokers[replica].rack == rack and broker.addresses.of(replica, context) is not None
    ]
    return PreferredReadReplica(max(near)[2]) if near else None
