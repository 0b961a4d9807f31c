"""How far the clocks of two machines are apart, by one question and its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.wire.protocol.messages.cluster import DescribeQuorumResponse

CLOCK_SKEW_MS = 5_000
"""From here on timestamps and timeouts of clients and brokers begin to disagree visibly."""


def clock_skew_ms(there_ms: int, asked_ms: float, took_ms: float) -> int:
    """How far the other clock is ahead of ours (negative: behind). It showed `there_ms` between the question, sent at
    `asked_ms` by ours, and the answer, `took_ms` later: what is beyond either end is skew."""
    return round(min(0, there_ms + 1 - asked_ms) or max(0, there_ms - asked_ms - took_ms))


def clock_of_leader(quorum: DescribeQuorumResponse, node_id: int) -> tuple[int, int] | None:
    """The node that leads the quorum, and its clock when it answered: it has always just heard of itself. None: this
    node leads, or the answer is of one that does not lead."""
    partition = next((each for topic in quorum.topics for each in topic.partitions), None)
    if quorum.error_code or partition is None or partition.error_code or partition.leader_id == node_id:
        return None
    for replica in partition.current_voters:
        if replica.replica_id == partition.leader_id and replica.last_fetch_timestamp >= 0:
            return partition.leader_id, replica.last_fetch_timestamp
    return None
