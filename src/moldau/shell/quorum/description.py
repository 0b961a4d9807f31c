"""The quorum as one of its nodes describes it (DescribeQuorum)."""

from __future__ import annotations

from moldau.core.controller.requests import QuorumDescription, QuorumReplica
from moldau.core.metadata.image import BrokerListener
from moldau.core.raft.quorum import Quorum
from moldau.ports import Clock
from moldau.types import BrokerId


def describe_quorum(
    quorum: Quorum, clock: Clock, node_id: BrokerId, own_listeners: tuple[BrokerListener, ...]
) -> QuorumDescription:
    """This node's view of the quorum. Only the leader knows the progress of the others."""
    voters = quorum.log.voters.latest
    offset_ms = clock.now_ms() - clock.monotonic_ms()
    states = {
        key: QuorumReplica(
            key.node_id, key.directory_id, at.offset, at.fetched_ms or None, at.caught_up_ms
        ).in_wall_time(offset_ms)
        for key, at in quorum.replicas(clock.monotonic_ms()).items()
    }
    listeners = {
        voter.voter_id: tuple(BrokerListener(point.name, point.host, point.port) for point in voter.endpoints)
        for voter in voters.voters
    }
    listeners.setdefault(node_id, own_listeners)
    return QuorumDescription(
        leader_id=BrokerId(quorum.leader_id),
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        voters=tuple(state for key, state in states.items() if voters.key_of(key)),
        observers=tuple(state for key, state in states.items() if not voters.key_of(key)),
        listeners=listeners,
    )
