"""The difference between the clocks of two machines, from one request and its response."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.wire.protocol.messages.cluster import DescribeQuorumResponse

CLOCK_SKEW_MS = 5_000
"""From here on the timestamps and timeouts of clients and brokers visibly disagree."""


def clock_skew_ms(there_ms: int, asked_ms: float, took_ms: float) -> int:
    """How far the other clock is ahead of ours; negative: it is behind. It read `there_ms` between the request, at
    `asked_ms` on our clock, and the response, `took_ms` later. Only a time outside that interval is skew."""
    return round(min(0, there_ms + 1 - asked_ms) or max(0, there_ms - asked_ms - took_ms))


def clock_of_leader(quorum: DescribeQuorumResponse, node_id: int) -> tuple[int, int] | None:
    """The leader of the quorum, and its clock when it responded. None: this node leads, or the response is not from the
    leader."""
    partition = next((each for topic in quorum.topics for each in topic.partitions), None)
    if quorum.error_code or partition is None or partition.error_code or partition.leader_id == node_id:
        return None
    for replica in partition.current_voters:
        if replica.replica_id == partition.leader_id and replica.last_fetch_timestamp >= 0:
            return partition.leader_id, replica.last_fetch_timestamp
    return None
