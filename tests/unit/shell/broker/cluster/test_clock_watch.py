"""A broker whose clock is far from the controller's logs that."""

from __future__ import annotations

import pytest

from moldau.core.clocks import clock_skew_ms
from moldau.shell.broker.cluster.clock_watch import look_at_clock
from moldau.shell.broker.own_node import OwnNode
from moldau.simulation.surroundings import SimulatedEventLog
from moldau.wire.protocol.messages.cluster import (
    DescribeQuorumResponse,
    QuorumPartition,
    QuorumReplicaState,
    QuorumTopic,
)
from tests.support.brokers import Brokers, run_brokers
from tests.support.stories import run_by


def described(leader_ms: int, leader_id: int = 9, error_code: int = 0) -> DescribeQuorumResponse:
    voters = (QuorumReplicaState(8, last_fetch_timestamp=5), QuorumReplicaState(9, last_fetch_timestamp=leader_ms))
    partition = QuorumPartition(error_code=error_code, leader_id=leader_id, current_voters=voters)
    return DescribeQuorumResponse(topics=(QuorumTopic("__cluster_metadata", (partition,)),))


def told_by(node: OwnNode) -> list[str]:
    assert isinstance(node.log, SimulatedEventLog)
    return list(node.log.lines)


@pytest.mark.parametrize(
    ("ahead_ms", "said"),
    [
        (8_000, ["8.0 s behind that of the active controller (node 9)"]),
        (-8_000, ["8.0 s ahead of that of the active controller (node 9)"]),
        (4_000, []),
    ],
)
@run_by(run_brokers, count=1)
async def test_a_clock_that_is_far_from_the_controllers_is_told_in_the_log(
    brokers: Brokers, *, ahead_ms: int, said: list[str]
) -> None:
    broker = brokers.machines[1].broker
    assert broker is not None
    node = broker.own_node

    async def describe() -> DescribeQuorumResponse:
        return described(node.clock.now_ms() + ahead_ms)

    await look_at_clock(node, describe)
    assert [one.partition("this machine is ")[2].partition(": ")[0] for one in told_by(node)] == said


@pytest.mark.parametrize("answer", [described(0, leader_id=1), described(0, error_code=6), DescribeQuorumResponse()])
@run_by(run_brokers, count=1)
async def test_an_answer_of_no_other_leader_says_nothing_of_its_clock(
    brokers: Brokers, *, answer: DescribeQuorumResponse
) -> None:
    broker = brokers.machines[1].broker
    assert broker is not None

    async def describe() -> DescribeQuorumResponse:
        return answer

    await look_at_clock(broker.own_node, describe)
    assert told_by(broker.own_node) == []


def test_what_lies_between_a_question_and_its_answer_is_no_skew() -> None:
    assert [clock_skew_ms(there, 1_000, 300) for there in (900, 999, 1_000, 1_300, 1_450)] == [-99, 0, 0, 0, 150]
