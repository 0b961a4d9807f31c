"""Where the logs of two replicas diverge: one rule for Fetch, OffsetForLeaderEpoch and truncation.

All three use `Log.end_offset_for_epoch`: the end of the largest epoch that is not above the requested one (KIP-101,
KIP-279). A leader records its epoch when it begins, so the response does not wait for its first batch.
"""

from __future__ import annotations

from moldau.errors import kafka_error
from moldau.types import LeaderEpoch, Offset


def check_leader_epoch(current_leader_epoch: int, leader_epoch: int) -> None:
    """KIP-320: raises 74 if the client's epoch is older than `leader_epoch`, 75 if newer. A negative epoch is not
    checked."""
    if 0 <= current_leader_epoch != leader_epoch:
        if current_leader_epoch < leader_epoch:
            raise kafka_error("FENCED_LEADER_EPOCH")
        raise kafka_error("UNKNOWN_LEADER_EPOCH")


def diverging_epoch(
    known: tuple[int, int], fetch_offset: int, last_fetched_epoch: int
) -> tuple[LeaderEpoch, Offset] | None:
    """KIP-595: where the log of a reader with `last_fetched_epoch` diverges from this log; None if it does not.

    `known` is this log's (epoch, end offset) for `last_fetched_epoch`. Raises OFFSET_OUT_OF_RANGE if it has none.
    """
    epoch, end_offset = known
    if end_offset < 0:
        raise kafka_error("OFFSET_OUT_OF_RANGE", "the last fetched epoch is not in the log")
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return LeaderEpoch(epoch), Offset(end_offset)
    return None


def truncation_offset(diverging: tuple[int, int], known: tuple[int, int], log_end_offset: int) -> Offset:
    """Where a follower truncates its log after the leader's response `diverging`. `known`: its own (epoch, end offset)
    for the epoch of the response.

    A follower without that epoch truncates to the end of the largest one below it, and asks again.
    """
    epoch, end_offset = known
    if epoch < 0:
        return Offset(min(diverging[1], log_end_offset))
    if epoch != diverging[0]:
        return Offset(min(end_offset, log_end_offset))
    return Offset(min(end_offset, diverging[1], log_end_offset))
