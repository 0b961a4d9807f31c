"""The voters of a quorum: the set in force, and how one set follows another (KIP-853)."""

from __future__ import annotations

import pytest

from moldau.core.raft.messages import (
    AddVoter,
    RemoveVoter,
    SnapshotId,
    Standing,
    UpdateVoter,
    Vote,
    VoteAnswer,
    VoterChange,
    VoterChangeAnswer,
)
from moldau.core.raft.own_log import OwnLog
from moldau.core.raft.quorum import Quorum
from moldau.core.raft.steps import (
    Answer,
    Answered,
    AppendControl,
    Appended,
    Asked,
    Flushed,
    HighWatermarkMoved,
    LeadershipEnded,
    Output,
    QuorumState,
    Tick,
)
from moldau.core.raft.voters import ReplicaKey, VoterHistory, VoterSet, configured_voters, voter_sets_in
from moldau.shell.io.simulated.random import SeededRandom
from moldau.types import BrokerId, LeaderEpoch, Offset, Uuid
from moldau.wire.protocol.messages.raft_records import Endpoint, VotersRecordVoter
from moldau.wire.records.control import ControlType, build_control_batch
from tests.unit.core.raft.voters_of_three import SETTINGS, asked, fetch, granted, leader, pre_vote


def key(node_id: int, disk: int = 1) -> ReplicaKey:
    return ReplicaKey(BrokerId(node_id), Uuid(bytes((*bytes(14), node_id, disk))))


def voter_of(replica: ReplicaKey) -> VotersRecordVoter:
    return VotersRecordVoter(replica.node_id, replica.directory_id)


NODE, SECOND, THIRD, NEW = (key(node_id) for node_id in (1, 2, 3, 4))
THREE = VoterSet(tuple(voter_of(each) for each in (NODE, SECOND, THIRD)))
FOUR = THREE.with_voter(voter_of(NEW))


def leader_of_three() -> Quorum:
    """Of epoch 4, whose first record, at offset 20, is committed; voter 2 fetches at 5,000 ms."""
    log = OwnLog(VoterHistory(THREE, 1), lambda epoch: (epoch, 1_000), log_end_offset=20, latest_epoch=3)
    quorum = Quorum(NODE, QuorumState(-1, 3), log, SETTINGS, SeededRandom(1))
    quorum.begin(0)
    granted(quorum, granted(quorum, pre_vote(quorum), 5_000), 5_000)
    quorum.step(Appended(21, 4), 5_000)
    quorum.step(Flushed(21), 5_000)
    quorum.step(Asked(0, fetch(SECOND, 21, max_wait_ms=0)), 5_000)
    assert quorum.high_watermark == 21
    return quorum


def ask(quorum: Quorum, request: VoterChange) -> tuple[Output, ...]:
    return quorum.step(Asked(9, request), 5_100)


def refusal(quorum: Quorum, request: VoterChange) -> str:
    [answer] = ask(quorum, request)
    assert isinstance(answer, Answer)
    return answer.answer.error


def appended(quorum: Quorum, outputs: tuple[Output, ...]) -> VoterSet:
    """Performs the requests of a change; gives the set in the log afterwards."""
    [append] = outputs
    assert isinstance(append, AppendControl)
    assert [kind for kind, _ in append.records] == [ControlType.KRAFT_VOTERS]
    offset = quorum.log.log_end_offset
    batch = build_control_batch(append.records, timestamp=0, base_offset=offset, leader_epoch=append.leader_epoch)
    [(found_offset, voters)] = voter_sets_in(batch)
    assert found_offset == offset
    quorum.step(Appended(offset + 1, 4, ((offset, voters),)), 5_100)
    quorum.step(Flushed(offset + 1), 5_100)
    return voters


def test_a_new_directory_makes_another_voter_unless_voters_are_configured() -> None:
    assert THREE.key_of(SECOND) == SECOND
    assert THREE.key_of(key(2, disk=2)) is None
    assert configured_voters((1, 2)).key_of(key(2, disk=2)) == ReplicaKey(BrokerId(2))
    assert [voters.majority for voters in (VoterSet(THREE.voters[:1]), VoterSet(THREE.voters[:2]), THREE, FOUR)] == [
        1,
        2,
        2,
        3,
    ]


def test_a_truncation_restores_voters_and_a_snapshot_names_those_before_its_end() -> None:
    history = VoterHistory(THREE, 1)
    history.append([(10, FOUR), (30, THREE)])
    assert (history.latest, history.latest_offset) == (THREE, 30)
    assert VoterSet(history.control_at(30).voters.voters) == FOUR  # type: ignore[union-attr]
    history.truncate_to(30)
    assert (history.latest, history.latest_offset) == (FOUR, 10)
    history.truncate_to(5)
    assert (history.latest, history.latest_offset) == (THREE, -1)
    history.restart(50, FOUR)
    history.truncate_to(50)
    assert (history.latest, history.latest_offset) == (FOUR, 49)


def test_a_caught_up_replica_becomes_a_voter_and_is_answered_after_the_commit() -> None:
    quorum = leader_of_three()
    assert refusal(quorum, AddVoter(voter_of(NEW))) == "REQUEST_TIMED_OUT"  # it never fetched
    quorum.step(Asked(1, fetch(NEW, 15, max_wait_ms=0)), 5_050)
    assert refusal(quorum, AddVoter(voter_of(NEW))) == "REQUEST_TIMED_OUT"  # it lacks records
    quorum.step(Asked(2, fetch(NEW, 21, max_wait_ms=0)), 5_060)
    assert appended(quorum, ask(quorum, AddVoter(voter_of(NEW)))) == FOUR
    assert quorum.log.voters.latest == FOUR  # in force before it is committed
    quorum.step(Asked(3, fetch(SECOND, 22, max_wait_ms=0)), 5_110)
    assert quorum.high_watermark == 21  # two of four are not a majority
    assert Answer(9, VoterChangeAnswer()) in quorum.step(Asked(4, fetch(NEW, 22, max_wait_ms=0)), 5_120)
    assert quorum.high_watermark == 22


def test_a_change_waits_for_the_one_before_and_for_the_first_record_of_its_epoch() -> None:
    quorum = leader_of_three()
    assert appended(quorum, ask(quorum, RemoveVoter(THIRD))) == VoterSet(THREE.voters[:2])
    assert refusal(quorum, RemoveVoter(SECOND)) == "REQUEST_TIMED_OUT"
    quorum.step(Asked(3, fetch(SECOND, 22, max_wait_ms=0)), 5_110)
    appended(quorum, ask(quorum, RemoveVoter(SECOND)))
    fresh = leader_of_three()
    fresh.log.high_watermark = type(fresh.high_watermark)(20)
    assert refusal(fresh, RemoveVoter(THIRD)) == "REQUEST_TIMED_OUT"


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (AddVoter(voter_of(key(2, disk=2))), "DUPLICATE_VOTER"),
        (RemoveVoter(NEW), "VOTER_NOT_FOUND"),
        (RemoveVoter(key(2, disk=2)), "VOTER_NOT_FOUND"),
        (UpdateVoter(voter_of(NEW)), "VOTER_NOT_FOUND"),
        (UpdateVoter(voter_of(SECOND)), ""),
    ],
)
def test_an_impossible_change_is_rejected_by_name_and_an_empty_one_succeeds(request_, error) -> None:
    assert refusal(leader_of_three(), request_) == error


def test_a_voter_may_change_its_endpoints() -> None:
    moved = VotersRecordVoter(2, SECOND.directory_id, (Endpoint("CONTROLLER", "host", 9_093),))
    quorum = leader_of_three()
    assert appended(quorum, ask(quorum, UpdateVoter(moved))) == THREE.with_voter(moved)


def test_the_leader_itself_may_change_its_endpoints_and_goes_on_leading() -> None:
    moved = VotersRecordVoter(1, NODE.directory_id, (Endpoint("CONTROLLER", "elsewhere", 9_093),))
    quorum = leader_of_three()
    assert appended(quorum, ask(quorum, UpdateVoter(moved, leader_epoch=4))) == THREE.with_voter(moved)
    assert moved in quorum.log.voters.latest.voters
    quorum.step(Asked(0, fetch(SECOND, 22, max_wait_ms=0)), 5_200)
    assert (quorum.is_leader, quorum.leader_epoch, quorum.high_watermark) == (True, 4, 22)
    assert refusal(quorum, UpdateVoter(moved, leader_epoch=3)) == "FENCED_LEADER_EPOCH"


def test_configured_voters_do_not_change_and_a_follower_changes_none() -> None:
    assert refusal(leader(), RemoveVoter(ReplicaKey(BrokerId(2)))) == "UNSUPPORTED_VERSION"
    waiting = Quorum(
        NODE,
        None,
        OwnLog(VoterHistory(THREE, 1), lambda epoch: (-1, -1), log_end_offset=0, latest_epoch=-1),
        SETTINGS,
        SeededRandom(1),
    )
    waiting.begin(0)
    assert refusal(waiting, RemoveVoter(SECOND)) == "NOT_LEADER_OR_FOLLOWER"


def test_a_leader_that_is_removed_leads_until_that_is_committed_without_its_own_copy() -> None:
    quorum = leader_of_three()
    appended(quorum, ask(quorum, RemoveVoter(NODE)))
    quorum.step(Asked(3, fetch(SECOND, 22, max_wait_ms=0)), 5_110)
    assert quorum.is_leader
    outputs = quorum.step(Asked(4, fetch(THIRD, 22, max_wait_ms=0)), 5_120)
    assert Answer(9, VoterChangeAnswer()) in outputs
    assert LeadershipEnded(LeaderEpoch(4)) in outputs
    assert [node_id for node_id, _ in asked(outputs)] == [2, 3]
    assert not quorum.is_leader


def test_a_node_that_is_no_voter_asks_for_the_leader_and_never_for_votes() -> None:
    log = OwnLog(VoterHistory(VoterSet(()), 1, -1), lambda epoch: (-1, -1), log_end_offset=0, latest_epoch=-1)
    quorum = Quorum(NEW, None, log, SETTINGS, SeededRandom(1), bootstrap_ids=(2, 4))
    quorum.begin(0)
    [(node_id, question)] = asked(quorum.step(Tick(), 0))
    assert (node_id, type(question).__name__) == (2, "Fetch")
    [(node_id, _)] = asked(quorum.step(Answered(2, question, Standing("FENCED_LEADER_EPOCH", 3, 7)), 10))  # type: ignore[arg-type]
    assert (node_id, quorum.leader_epoch) == (3, 7)
    outputs = quorum.step(Tick(), 10 + SETTINGS.fetch_timeout_ms)
    assert [type(request).__name__ for _, request in asked(outputs)] == ["Fetch"]
    assert quorum.leader_epoch == 7


@pytest.mark.parametrize(
    ("offset", "last_fetched_epoch", "needs_it"),
    [
        (0, -1, True),
        (39, 4, True),
        (40, 4, False),
        (40, 3, True),
        (40, 5, True),
        (41, 4, False),
        (41, 5, False),
        (41, 3, True),
    ],
)
def test_a_replica_that_does_not_go_on_from_the_log_start_needs_the_newest_snapshot(
    offset, last_fetched_epoch, needs_it
) -> None:
    oldest, newest = SnapshotId(40, 4), SnapshotId(60, 5)
    log = OwnLog(
        VoterHistory(THREE, 1),
        lambda epoch: (-1, -1),
        log_end_offset=70,
        latest_epoch=5,
        snapshot=newest,
        oldest=oldest,
    )
    assert log.snapshot_for(offset, last_fetched_epoch) == (newest if needs_it else None)


def test_a_voter_that_is_removed_may_lead_until_its_removal_is_known_to_be_committed() -> None:
    """It may be the only one with all records that a majority could have committed."""
    history = VoterHistory(THREE, 1)
    history.append([(20, THREE.without(NODE))])
    assert history.may_stand(NODE, high_watermark=0)
    assert history.may_stand(NODE, high_watermark=20)
    assert not history.may_stand(NODE, high_watermark=21)
    assert not history.may_stand(NEW, high_watermark=0)
    log = OwnLog(history, lambda epoch: (epoch, 1_000), log_end_offset=21, latest_epoch=4)
    quorum = Quorum(NODE, QuorumState(1, 4), log, SETTINGS, SeededRandom(1))
    quorum.begin(0)
    outputs = granted(quorum, pre_vote(quorum), 5_000)
    assert not quorum.is_leader  # its own vote no longer counts
    third = Vote(4, NODE, THIRD, 4, 21, is_pre_vote=True)
    outputs = quorum.step(Answered(3, third, VoteAnswer("", -1, 4, is_granted=True)), 5_000)
    granted(quorum, outputs, 5_000)
    third = Vote(5, NODE, THIRD, 4, 21, is_pre_vote=False)
    quorum.step(Answered(3, third, VoteAnswer("", -1, 5, is_granted=True)), 5_000)
    assert quorum.is_leader


def test_the_high_watermark_never_lies_below_the_newest_snapshot() -> None:
    """A new leader may not yet know that the records of this node's snapshot are committed."""
    snapshot = SnapshotId(10, 3)
    log = OwnLog(
        VoterHistory(THREE, 1), lambda epoch: (epoch, 1_000), log_end_offset=20, latest_epoch=3, snapshot=snapshot
    )
    assert log.advance(9) == ()
    assert log.advance(10) == (HighWatermarkMoved(Offset(10)),)
