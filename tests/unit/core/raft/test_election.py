"""Elections: which candidates get a vote, what is saved before the vote, and the result of a round."""

from __future__ import annotations

import msgspec
import pytest

from moldau.core.raft.election import Round
from moldau.core.raft.messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    Fetch,
    Standing,
    Vote,
    VoteAnswer,
)
from moldau.core.raft.steps import (
    Answer,
    Answered,
    Asked,
    LeadershipBegan,
    QuorumState,
    Save,
    Tick,
)
from moldau.core.raft.voters import ReplicaKey, configured_voters
from moldau.types import ZERO_UUID, Uuid
from tests.unit.core.raft.voters_of_three import (
    NODE,
    SECOND,
    SETTINGS,
    THIRD,
    asked,
    fetched,
    follower,
    granted,
    leader,
    pre_vote,
    voter,
)

DIRECTORY_ID = Uuid(bytes(15) + b"\x01")
CANDIDACY = Vote(6, SECOND, NODE, 3, 20, is_pre_vote=False)


def ask_vote(saved: QuorumState, request: Vote) -> tuple[bool, str]:
    quorum = voter(saved)
    quorum.begin(0)
    *_, answer = (each for each in quorum.step(Asked(1, request), 0) if isinstance(each, Answer))
    assert isinstance(answer.answer, VoteAnswer)
    return answer.answer.is_granted, answer.answer.error


@pytest.mark.parametrize(
    ("what", "saved", "changes", "is_granted", "error"),
    [
        ("a newer epoch", QuorumState(-1, 5), {}, True, ""),
        ("the same epoch, nobody voted for", QuorumState(-1, 6), {}, True, ""),
        ("who has the vote asks again", QuorumState(-1, 6, voted_id=2), {}, True, ""),
        ("another one has the vote", QuorumState(-1, 6, voted_id=3), {}, False, ""),
        ("the epoch has a leader", QuorumState(3, 6), {}, False, ""),
        ("the epoch was led from here", QuorumState(1, 6), {}, False, ""),
        ("an older epoch", QuorumState(-1, 7), {}, False, "FENCED_LEADER_EPOCH"),
        ("a shorter log", QuorumState(-1, 5), {"log_end_offset": 19}, False, ""),
        ("a longer log of an older epoch", QuorumState(-1, 5), {"last_epoch": 2, "log_end_offset": 99}, False, ""),
        ("a shorter log of a newer epoch", QuorumState(-1, 5), {"last_epoch": 4, "log_end_offset": 5}, True, ""),
        ("another voter is meant", QuorumState(-1, 5), {"voter": THIRD}, False, "INVALID_VOTER_KEY"),
        ("a pre-vote beside a vote", QuorumState(-1, 6, voted_id=3), {"is_pre_vote": True}, True, ""),
        ("a pre-vote, no word of the leader yet", QuorumState(3, 6), {"is_pre_vote": True}, True, ""),
    ],
)
def test_a_vote_is_given_once_in_an_epoch_to_a_log_that_has_everything(what, saved, changes, is_granted, error) -> None:
    assert ask_vote(saved, msgspec.structs.replace(CANDIDACY, **changes)) == (is_granted, error), what


def test_a_vote_is_saved_before_it_is_given() -> None:
    quorum = voter(QuorumState(-1, 5))
    quorum.begin(0)
    epoch, vote, answer = quorum.step(Asked(7, CANDIDACY), 0)
    assert epoch == Save(QuorumState(-1, 6, voter_ids=(1, 2, 3)))
    assert vote == Save(QuorumState(-1, 6, voted_id=2, voter_ids=(1, 2, 3)))
    assert answer == Answer(7, VoteAnswer("", -1, 6, is_granted=True))


def test_nobody_who_hears_from_the_leader_grants_a_pre_vote_against_it() -> None:
    request = Vote(5, THIRD, NODE, 9, 99, is_pre_vote=True)
    quorum, first = follower()
    quorum.step(fetched(first), 10)
    assert quorum.step(Asked(1, request), 20) == (Answer(1, VoteAnswer("", 2, 5, is_granted=False)),)
    quorum.step(Asked(2, EndQuorumEpoch(2, 5, (THIRD, NODE))), 30)
    assert quorum.step(Asked(3, request), 40) == (Answer(3, VoteAnswer("", 2, 5, is_granted=True)),)
    leading = leader()
    refused = VoteAnswer("", 1, 4, is_granted=False)
    assert leading.step(Asked(1, msgspec.structs.replace(request, leader_epoch=4)), 5_000) == (Answer(1, refused),)


def test_an_election_begins_with_a_pre_vote_and_continues_in_the_next_epoch() -> None:
    quorum = voter(QuorumState(-1, 5))
    quorum.begin(0)
    outputs = pre_vote(quorum)
    assert asked(outputs) == [
        (2, Vote(5, NODE, SECOND, 3, 20, is_pre_vote=True)),
        (3, Vote(5, NODE, THIRD, 3, 20, is_pre_vote=True)),
    ]
    save, *asks = granted(quorum, outputs, 5_000)
    assert save == Save(QuorumState(-1, 6, voted_id=1, voter_ids=(1, 2, 3)))
    assert asked(tuple(asks))[0] == (2, Vote(6, NODE, SECOND, 3, 20, is_pre_vote=False))
    led = granted(quorum, tuple(asks), 5_000)
    assert led[0] == Save(QuorumState(1, 6, voter_ids=(1, 2, 3)))
    assert LeadershipBegan(quorum.leader_epoch) in led


def test_a_lost_pre_vote_leads_back_to_the_leader_and_changes_no_epoch() -> None:
    quorum, _ = follower()
    for node_id, request in asked(quorum.step(Tick(), SETTINGS.fetch_timeout_ms)):
        assert isinstance(request, Vote)
        outputs = quorum.step(Answered(node_id, request, VoteAnswer("", 2, 5)), 2_100)
    [(node_id, request)] = asked(outputs)
    assert (node_id, isinstance(request, Fetch), quorum.leader_epoch) == (2, True, 5)


def test_a_node_that_led_waits_for_another_epoch_after_a_restart() -> None:
    quorum = voter(QuorumState(1, 5, voter_ids=(1, 2, 3)))
    assert [output for output in quorum.begin(0) if isinstance(output, Save)] == []
    assert not quorum.is_leader
    _, outputs = pre_vote(quorum), quorum.next_deadline_ms()
    assert outputs is not None
    assert quorum.leader_epoch == 5


def test_a_higher_epoch_in_any_answer_ends_what_a_node_did() -> None:
    for quorum in (leader(), follower()[0]):
        request = BeginQuorumEpoch(1, quorum.leader_epoch)
        outputs = quorum.step(Answered(3, request, Standing("FENCED_LEADER_EPOCH", 3, 9)), 6_000)
        assert Save(QuorumState(3, 9, voter_ids=(1, 2, 3))) in outputs
        assert (quorum.is_leader, quorum.leader_id, quorum.leader_epoch) == (False, 3, 9)


def test_who_announces_an_older_epoch_is_told_the_newer_one() -> None:
    quorum, _ = follower()
    expected = Answer(1, Standing("FENCED_LEADER_EPOCH", 2, 5))
    assert quorum.step(Asked(1, BeginQuorumEpoch(3, 4)), 0) == (expected,)


def test_the_first_successor_of_a_leader_that_resigns_tries_at_once() -> None:
    quorum, first = follower()
    quorum.step(fetched(first), 10)
    quorum.step(Asked(1, EndQuorumEpoch(2, 5, (NODE, THIRD))), 100)
    assert quorum.next_deadline_ms() == 100
    assert [node_id for node_id, _ in asked(quorum.step(Tick(), 100))] == [2, 3]


@pytest.mark.parametrize("directory_id", [ZERO_UUID, DIRECTORY_ID])
def test_a_successor_is_known_by_its_node_id_where_the_voters_name_no_directories(directory_id: Uuid) -> None:
    quorum, first = follower(node=ReplicaKey(NODE.node_id, DIRECTORY_ID))
    quorum.step(fetched(first), 10)
    successors = (ReplicaKey(NODE.node_id, directory_id), THIRD)
    quorum.step(Asked(1, EndQuorumEpoch(2, 5, successors)), 100)
    assert quorum.next_deadline_ms() == 100


def test_a_voter_of_the_same_id_with_another_directory_is_another_successor() -> None:
    quorum, first = follower(node=ReplicaKey(NODE.node_id, DIRECTORY_ID))
    quorum.step(fetched(first), 10)
    quorum.step(Asked(1, EndQuorumEpoch(2, 5, (ReplicaKey(NODE.node_id, Uuid(bytes(15) + b"\x02")), THIRD))), 100)
    deadline_ms = quorum.next_deadline_ms()
    assert deadline_ms is not None
    assert deadline_ms > 100


@pytest.mark.parametrize(
    ("votes", "is_won", "is_lost"),
    [
        ((), False, False),
        (((2, True),), False, False),
        (((2, True), (2, True)), False, False),
        (((2, True), (3, True)), True, False),
        (((2, False), (3, False)), False, False),
        (((2, False), (3, False), (4, False)), False, True),
        (((9, True), (8, True)), False, False),
    ],
)
def test_a_round_of_five_is_won_with_three_votes_and_lost_with_three_refusals(votes, is_won, is_lost) -> None:
    ballots = Round(NODE, configured_voters((1, 2, 3, 4, 5)), 0, is_pre_vote=False)
    for voter_id, is_granted in votes:
        ballots.take(voter_id, is_granted=is_granted)
    assert (ballots.is_won, ballots.is_lost) == (is_won, is_lost)
