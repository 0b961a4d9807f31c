"""The voter of the quorum as a step machine: examples of its decisions, and invariants in every order of events."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from moldau.core.metadata.snapshot import QuorumControl
from moldau.core.raft.own_log import FLUSH_RETRY_MS, OwnLog
from moldau.core.raft.quorum import Quorum
from moldau.core.raft.steps import (
    AppendControl,
    Appended,
    DiskFull,
    Event,
    Flush,
    Flushed,
    HighWatermarkMoved,
    LeadershipBegan,
    LeadershipEnded,
    Output,
    QuorumSettings,
    QuorumState,
    Resign,
    Save,
    Tick,
)
from moldau.core.raft.voters import ReplicaKey, VoterHistory, VoterSet, configured_voters
from moldau.shell.io.simulated.random import SeededRandom
from moldau.types import BrokerId, LeaderEpoch, Offset
from moldau.wire.protocol.messages.raft_records import VotersRecord, VotersRecordVoter
from moldau.wire.records.control import ControlType

NODE = ReplicaKey(BrokerId(1))
VOTERS = QuorumControl(1, VotersRecord(voters=(VotersRecordVoter(1),)))


def voter(
    saved: QuorumState | None = None, control: QuorumControl = VOTERS, log_end_offset: int = 20, latest_epoch: int = 3
) -> Quorum:
    if control.voters is None:
        voters = VoterHistory(configured_voters((NODE.node_id,)))
    else:
        voters = VoterHistory(VoterSet(control.voters.voters), control.kraft_version)
    log = OwnLog(voters, lambda epoch: (-1, -1), log_end_offset=log_end_offset, latest_epoch=latest_epoch)
    return Quorum(NODE, saved, log, QuorumSettings(), SeededRandom(1))


def leader() -> Quorum:
    """Of epoch 4: its LeaderChange is at offset 20, and is flushed."""
    quorum = voter()
    quorum.begin(0)
    quorum.step(Appended(21, 4), 0)
    quorum.step(Flushed(21), 0)
    return quorum


def test_a_start_is_an_election_in_an_epoch_above_the_saved_one_and_above_the_log() -> None:
    for saved, latest_epoch, epoch in ((None, 3, 4), (QuorumState(1, 41), 3, 42), (QuorumState(1, 2), 3, 4)):
        quorum = voter(saved, latest_epoch=latest_epoch)
        save, append, began = quorum.begin(0)
        assert save == Save(QuorumState(1, epoch))
        assert isinstance(append, AppendControl)
        assert (append.leader_epoch, [kind for kind, _ in append.records]) == (epoch, [ControlType.LEADER_CHANGE])
        assert began == LeadershipBegan(LeaderEpoch(epoch))
        assert (quorum.is_leader, quorum.leader_epoch, quorum.high_watermark) == (True, epoch, 0)


def test_the_first_leader_of_a_cluster_writes_its_voters_into_the_log() -> None:
    _, append, _ = voter(log_end_offset=0, latest_epoch=0).begin(0)
    assert isinstance(append, AppendControl)
    kinds = [kind for kind, _ in append.records]
    assert kinds == [ControlType.LEADER_CHANGE, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS]


def test_voters_that_are_configured_stay_in_the_saved_state() -> None:
    save, append, _ = voter(QuorumState(1, 5, voter_ids=(1,)), QuorumControl(), log_end_offset=0).begin(0)
    assert save == Save(QuorumState(1, 6, voter_ids=(1,)))
    assert isinstance(append, AppendControl)
    assert len(append.records) == 1


def test_what_is_flushed_is_committed() -> None:
    quorum = voter()
    quorum.begin(0)
    assert quorum.step(Appended(21, 4), 0) == (Flush(),)
    assert quorum.high_watermark == 0
    assert quorum.step(Flushed(21), 0) == (HighWatermarkMoved(Offset(21)),)
    assert quorum.next_deadline_ms() is None


def test_what_is_appended_while_a_flush_runs_goes_with_the_next_one() -> None:
    quorum = leader()
    assert quorum.step(Appended(23, 4), 0) == (Flush(),)
    assert quorum.step(Appended(25, 4), 0) == ()
    assert quorum.step(Appended(27, 4), 0) == ()
    assert quorum.step(Flushed(23), 0) == (HighWatermarkMoved(Offset(23)), Flush())
    assert quorum.step(Flushed(27), 0) == (HighWatermarkMoved(Offset(27)),)


def test_a_flush_beyond_what_is_applied_commits_only_that() -> None:
    quorum = leader()
    quorum.step(Appended(23, 4), 0)
    assert quorum.step(Flushed(30), 0) == (HighWatermarkMoved(Offset(23)),)
    assert quorum.step(Appended(30, 4), 0) == (Flush(),)


def test_a_full_disk_is_asked_again_after_a_while() -> None:
    quorum = leader()
    quorum.step(Appended(23, 4), 1_000)
    assert quorum.step(DiskFull(), 1_000) == ()
    assert quorum.next_deadline_ms() == 1_000 + FLUSH_RETRY_MS
    assert quorum.step(Appended(24, 4), 1_200) == ()
    assert quorum.step(Tick(), 1_000 + FLUSH_RETRY_MS - 1) == ()
    assert quorum.step(Tick(), 1_000 + FLUSH_RETRY_MS) == (Flush(),)
    assert quorum.next_deadline_ms() is None
    assert quorum.step(Flushed(24), 1_600) == (HighWatermarkMoved(Offset(24)),)


def test_a_voter_that_resigned_asks_for_nothing_and_commits_nothing() -> None:
    quorum = leader()
    quorum.step(Appended(23, 4), 0)
    assert quorum.step(Resign(), 0) == (LeadershipEnded(LeaderEpoch(4)),)
    for event in (Flushed(23), Appended(24, 4), DiskFull(), Tick(), Resign()):
        assert quorum.step(event, 9_999) == ()
    assert (quorum.is_leader, quorum.high_watermark, quorum.next_deadline_ms()) == (False, 21, None)


class Disk(msgspec.Struct):
    """The driver's state: the log, and the running flush (up to the log end when the flush began)."""

    log_end_offset: int
    flushed_offset: int = 0
    flushing_to: int | None = None


HAPPENINGS = st.lists(
    st.tuples(st.sampled_from(["append", "flushed", "full", "wait", "resign"]), st.integers(1, 700)), max_size=60
)


@given(
    happenings=HAPPENINGS,
    saved_epoch=st.integers(0, 9),
    latest_epoch=st.integers(0, 9),
    log_end_offset=st.integers(0, 50),
)
def test_in_every_order_of_events_only_flushed_records_are_committed(
    happenings: list[tuple[str, int]], saved_epoch: int, latest_epoch: int, log_end_offset: int
) -> None:
    quorum = voter(QuorumState(1, saved_epoch), log_end_offset=log_end_offset, latest_epoch=latest_epoch)
    disk = Disk(log_end_offset)
    told: list[Output] = []
    now_ms = 0

    def perform(outputs: tuple[Output, ...]) -> None:
        for output in outputs:
            told.append(output)
            if isinstance(output, Flush):
                assert disk.flushing_to is None
                disk.flushing_to = disk.log_end_offset
            elif isinstance(output, HighWatermarkMoved):
                assert output.high_watermark <= min(disk.flushed_offset, disk.log_end_offset)
                assert output.high_watermark == quorum.high_watermark

    def step(event: Event) -> None:
        perform(quorum.step(event, now_ms))

    def append(count: int) -> None:
        disk.log_end_offset += count
        step(Appended(disk.log_end_offset, quorum.leader_epoch))

    def end_flush(*, is_full: bool) -> None:
        end_offset, disk.flushing_to = disk.flushing_to, None
        if end_offset is None:
            return
        if is_full:
            step(DiskFull())
        else:
            disk.flushed_offset = max(disk.flushed_offset, end_offset)
            step(Flushed(end_offset))

    perform(quorum.begin(now_ms))
    append(1)
    for happening, number in happenings:
        if happening == "append":
            append(number)
        elif happening == "wait":
            now_ms += number
            step(Tick())
        elif happening == "resign":
            step(Resign())
        else:
            end_flush(is_full=happening == "full")
    has_resigned = not quorum.is_leader
    while disk.flushing_to is not None or quorum.next_deadline_ms() is not None:
        now_ms = max(now_ms, quorum.next_deadline_ms() or 0)
        step(Tick())
        end_flush(is_full=False)

    [save, _, began] = told[:3]
    assert isinstance(save, Save)
    assert save.state.leader_epoch == quorum.leader_epoch > max(saved_epoch, latest_epoch)
    assert began == LeadershipBegan(quorum.leader_epoch)
    moves = [output.high_watermark for output in told if isinstance(output, HighWatermarkMoved)]
    assert moves == sorted(dict.fromkeys(moves))
    assert sum(isinstance(output, LeadershipEnded) for output in told) == has_resigned
    if has_resigned:
        ended = told.index(LeadershipEnded(quorum.leader_epoch))
        assert told[ended + 1 :] == []
    else:
        assert quorum.high_watermark == disk.log_end_offset
