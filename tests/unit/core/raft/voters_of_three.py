"""Voter 1 of three configured ones, for the tests of its roles."""

from __future__ import annotations

from collections.abc import Callable

from moldau.core.raft.messages import Fetch, FetchAnswer, Vote, VoteAnswer
from moldau.core.raft.own_log import OwnLog
from moldau.core.raft.quorum import Quorum
from moldau.core.raft.steps import Answered, Appended, Ask, Flushed, Output, QuorumSettings, QuorumState, Tick
from moldau.core.raft.voters import ReplicaKey, VoterHistory, configured_voters
from moldau.shell.io.simulated.random import SeededRandom
from moldau.types import BrokerId

NODE, SECOND, THIRD = (ReplicaKey(BrokerId(node_id)) for node_id in (1, 2, 3))
SETTINGS = QuorumSettings()


def voter(
    saved: QuorumState | None = None,
    *,
    node: ReplicaKey = NODE,
    log_end_offset: int = 20,
    latest_epoch: int = 3,
    end_offset_for_epoch: Callable[[int], tuple[int, int]] = lambda epoch: (epoch, 1_000),
) -> Quorum:
    log = OwnLog(
        VoterHistory(configured_voters((1, 2, 3))),
        end_offset_for_epoch,
        log_end_offset=log_end_offset,
        latest_epoch=latest_epoch,
    )
    return Quorum(node, saved, log, SETTINGS, SeededRandom(1))


def asked(outputs: tuple[Output, ...]) -> list[tuple[int, object]]:
    """The requests, with their receivers."""
    return [(output.node_id, output.request) for output in outputs if isinstance(output, Ask)]


def pre_vote(quorum: Quorum) -> tuple[Output, ...]:
    """Its election timeout is over: the pre-vote round begins."""
    deadline_ms = quorum.next_deadline_ms()
    assert deadline_ms is not None
    return quorum.step(Tick(), deadline_ms)


def granted(quorum: Quorum, outputs: tuple[Output, ...], now_ms: int) -> tuple[Output, ...]:
    """Voter 2 grants the requested vote."""
    [request] = [request for node_id, request in asked(outputs) if node_id == 2]
    assert isinstance(request, Vote)
    answer = VoteAnswer("", -1, quorum.leader_epoch, is_granted=True)
    return quorum.step(Answered(2, request, answer), now_ms)


def leader() -> Quorum:
    """Of epoch 4 since 5,000 ms: its LeaderChange is at offset 20, and is flushed here."""
    quorum = voter(QuorumState(-1, 3))
    quorum.begin(0)
    outputs = pre_vote(quorum)
    outputs = granted(quorum, outputs, 5_000)
    granted(quorum, outputs, 5_000)
    quorum.step(Appended(21, 4), 5_000)
    quorum.step(Flushed(21), 5_000)
    assert quorum.is_leader
    return quorum


def fetch(replica: ReplicaKey, offset: int, *, epoch: int = 4, last_epoch: int = 4, max_wait_ms: int = 500) -> Fetch:
    return Fetch(replica, epoch, offset, last_epoch, 0, max_wait_ms)


def follower(**known: object) -> tuple[Quorum, Fetch]:
    """Of leader 2 in epoch 5, with its first fetch."""
    quorum = voter(QuorumState(2, 5), **known)  # type: ignore[arg-type]
    quorum.begin(0)
    [(node_id, request)] = asked(quorum.step(Flushed(20), 0))
    assert node_id == 2
    assert isinstance(request, Fetch)
    return quorum, request


def fetched(request: Fetch, high_watermark: int = 0, **found: object) -> Answered:
    return Answered(2, request, FetchAnswer("", 2, 5, high_watermark, **found))  # type: ignore[arg-type]
