"""EndTxn, for each version and state: Kafka's table of transitions (asked of Apache Kafka 4.3.1)."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.core.transactions.requests import EndTransaction, MarkersWritten, TransactionAnswer
from moldau.core.transactions.state import TransactionState
from moldau.errors import KafkaError
from tests.unit.core.transactions.conftest import NAME, T0, T1, Shard

S = TransactionState
INVALID_TXN_STATE, MAPPING, CONCURRENT, FENCED = 48, 49, 51, 90


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_an_open_transaction_is_decided_then_complete(shard: Shard, version: int, commit: bool) -> None:
    producer_id, epoch = shard.open_transaction(version)
    code, *_ = shard.end(producer_id, epoch, commit=commit, version=version)
    word = "Commit" if commit else "Abort"
    raised = epoch + (version == 2)
    assert (code, shard.known) == (0, (f"Prepare{word}", producer_id, raised))
    assert list(shard.of().partitions) == [T0]
    shard.give_markers()
    assert shard.known == (f"Complete{word}", producer_id, raised)
    assert not shard.of().partitions


@pytest.mark.parametrize(
    ("state", "commit_code", "abort_code"),
    [
        (S.EMPTY, INVALID_TXN_STATE, INVALID_TXN_STATE),
        (S.ONGOING, 0, 0),
        (S.PREPARE_COMMIT, CONCURRENT, INVALID_TXN_STATE),
        (S.PREPARE_ABORT, INVALID_TXN_STATE, CONCURRENT),
        (S.COMPLETE_COMMIT, 0, INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, INVALID_TXN_STATE, 0),
    ],
)
@pytest.mark.parametrize("commit", [True, False])
def test_v1_ends_by_state_alone(state: S, commit_code: int, abort_code: int, commit: bool) -> None:
    shard = Shard()
    shard.at(state, epoch=5)
    before = len(shard.log)
    assert shard.end(1000, 5, commit=commit, version=0)[0] == (commit_code if commit else abort_code)
    assert len(shard.log) - before == (state is S.ONGOING)
    assert shard.of().producer_epoch == 5


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("state", [S.EMPTY, S.ONGOING, S.PREPARE_COMMIT, S.COMPLETE_ABORT])
def test_whoever_has_another_producer_id_or_a_stale_or_future_epoch_ends_nothing(
    shard: Shard, state: S, version: int
) -> None:
    shard.at(state, epoch=5)
    before = len(shard.log)
    assert shard.end(77, 5, version=version)[0] == MAPPING
    assert shard.end(1000, 3, version=version)[0] == FENCED
    assert shard.end(1000, 6, version=version)[0] == FENCED
    assert shard.end(1000, 5, version=version, name="unknown")[0] == MAPPING
    assert len(shard.log) == before


@pytest.mark.parametrize(
    ("state", "epoch", "commit", "code"),
    [
        # of the coordinator's epoch: the next end
        (S.EMPTY, 5, True, INVALID_TXN_STATE),
        (S.EMPTY, 5, False, 0),
        (S.ONGOING, 5, True, 0),
        (S.ONGOING, 5, False, 0),
        (S.PREPARE_COMMIT, 5, True, CONCURRENT),
        (S.PREPARE_COMMIT, 5, False, CONCURRENT),
        (S.PREPARE_ABORT, 5, True, CONCURRENT),
        (S.PREPARE_ABORT, 5, False, CONCURRENT),
        (S.COMPLETE_COMMIT, 5, True, INVALID_TXN_STATE),
        (S.COMPLETE_COMMIT, 5, False, 0),
        (S.COMPLETE_ABORT, 5, True, INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, 5, False, 0),
        # of the epoch before: a repeat, or late
        (S.EMPTY, 4, False, FENCED),
        (S.ONGOING, 4, True, FENCED),
        (S.ONGOING, 4, False, FENCED),
        (S.PREPARE_COMMIT, 4, True, CONCURRENT),
        (S.PREPARE_COMMIT, 4, False, INVALID_TXN_STATE),
        (S.PREPARE_ABORT, 4, True, INVALID_TXN_STATE),
        (S.PREPARE_ABORT, 4, False, CONCURRENT),
        (S.COMPLETE_COMMIT, 4, True, 0),
        (S.COMPLETE_COMMIT, 4, False, INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, 4, True, INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, 4, False, 0),
    ],
)
def test_v2_tells_a_repeat_from_the_next_end_by_the_epoch(
    shard: Shard, state: S, epoch: int, commit: bool, code: int
) -> None:
    shard.at(state, epoch=5)
    before = len(shard.log)
    answer = shard.end(1000, epoch, commit=commit)
    is_new = code == 0 and epoch == 5
    assert answer == (code, *((1000, 6 if is_new else 5) if code == 0 else (-1, -1)))
    assert len(shard.log) - before == is_new
    assert shard.of().producer_epoch == 5 + is_new


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("next_commit", [True, False])
def test_the_next_end_waits_for_the_markers_of_the_last_one_in_v2(
    shard: Shard, commit: bool, next_commit: bool
) -> None:
    """A client with its response may end an empty transaction at once. Error 90 would end the producer."""
    producer_id, epoch = shard.open_transaction()
    code, producer_id, epoch = shard.end(producer_id, epoch, commit=commit)
    assert code == 0
    assert shard.end(producer_id, epoch, commit=next_commit) == (CONCURRENT, -1, -1)
    shard.give_markers()
    assert shard.end(producer_id, epoch, commit=next_commit)[0] == (INVALID_TXN_STATE if next_commit else 0)


def test_an_abort_with_nothing_open_takes_a_new_epoch_in_v2(shard: Shard) -> None:
    _, producer_id, _ = shard.init()
    assert shard.end(producer_id, 0, commit=False) == (0, producer_id, 1)
    assert shard.known == ("PrepareAbort", producer_id, 1)
    assert shard.of().start_ms == shard.wall_ms
    shard.give_markers()
    assert shard.known == ("CompleteAbort", producer_id, 1)
    assert shard.add(producer_id, 1) == 0


def test_a_late_end_of_an_earlier_transaction_is_refused_in_v2(shard: Shard) -> None:
    producer_id, epoch = shard.open_transaction()
    _, _, next_epoch = shard.end(producer_id, epoch)
    shard.give_markers()
    assert shard.add(producer_id, next_epoch, T1) == 0
    assert shard.end(producer_id, epoch) == (FENCED, -1, -1)
    assert shard.end(producer_id, epoch, commit=False) == (FENCED, -1, -1)
    assert shard.known == ("Ongoing", producer_id, next_epoch)


def test_a_late_end_of_an_earlier_transaction_ends_the_open_one_in_v1() -> None:
    """Apache Kafka does so too, the reason for KIP-890: the epoch is the same, so the two are indistinguishable."""
    shard = Shard(transaction_version=1)
    producer_id, epoch = shard.open_transaction(version=0)
    shard.end(producer_id, epoch, version=0)
    shard.give_markers()
    assert shard.add(producer_id, epoch, T1, version=0) == 0
    assert shard.end(producer_id, epoch, version=0)[0] == 0
    assert shard.known == ("PrepareCommit", producer_id, epoch)


def test_epochs_that_are_used_up_give_a_new_producer_id_in_v2(shard: Shard) -> None:
    shard.at(S.ONGOING, epoch=32_766)
    assert shard.end(1000, 32_766) == (0, 1001, 0)
    assert shard.known == ("PrepareCommit", 1000, 32_767), "the marker is of the old producer id"
    assert shard.end(1000, 32_766)[0] == CONCURRENT
    shard.give_markers()
    assert shard.known == ("CompleteCommit", 1001, 0)
    assert shard.end(1000, 32_766) == (0, 1001, 0), "the answer was lost"
    assert shard.end(1000, 32_766, commit=False)[0] == INVALID_TXN_STATE
    assert shard.end(1000, 32_765)[0] == MAPPING
    assert shard.add(1001, 0) == 0
    assert shard.end(1000, 32_766)[0] == MAPPING


def test_a_producer_with_the_new_id_waits_for_the_markers_of_the_old_one(shard: Shard) -> None:
    """Its first request may come before they are written, and an error that says it is unknown ends the client."""
    shard.at(S.ONGOING, epoch=32_766)
    assert shard.end(1000, 32_766) == (0, 1001, 0)
    assert shard.add(1001, 0) == CONCURRENT
    assert shard.verify(1001, 0) == (CONCURRENT,)
    assert shard.init(1001, 0)[0] == CONCURRENT
    assert shard.end(1001, 0, commit=False)[0] == CONCURRENT
    assert shard.add(1002, 0) == MAPPING
    shard.give_markers()
    assert shard.add(1001, 0) == 0


def test_the_new_producer_id_survives_a_crash_between_decision_and_markers(shard: Shard) -> None:
    shard.at(S.ONGOING, epoch=32_766)
    shard.end(1000, 32_766)
    shard.reload()
    shard.give_markers()
    assert shard.known == ("CompleteCommit", 1001, 0)


@pytest.mark.parametrize("version", [0, 2])
def test_nobody_works_with_the_highest_epoch_of_all(shard: Shard, version: int) -> None:
    """No producer got it: the broker ended the transaction with that epoch."""
    shard.at(S.COMPLETE_ABORT, epoch=32_767)
    assert shard.add(1000, 32_767, version=version) == FENCED
    if version == 2:
        assert shard.end(1000, 32_767, commit=False)[0] == FENCED
    assert shard.init() == (0, 1001, 0)


def test_ending_the_aborted_last_transaction_of_a_producer_id_gives_a_new_id(shard: Shard) -> None:
    """By a time-out or by a new producer: the broker raised the epoch to the one that no producer gets."""
    shard.at(S.ONGOING, epoch=32_766)
    shard.init()
    assert shard.end(1000, 32_766, commit=False)[0] == CONCURRENT
    shard.give_markers()
    assert shard.known == ("CompleteAbort", 1000, 32_767)
    assert shard.end(1000, 32_766)[0] == INVALID_TXN_STATE
    assert shard.end(1000, 32_766, commit=False) == (0, 1001, 0)
    assert shard.end(1000, 32_766, commit=False) == (0, 1001, 0), "the answer was lost"
    shard.reload()
    assert shard.known == ("CompleteAbort", 1001, 0)
    assert shard.add(1001, 0) == 0


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_transaction_whose_time_is_over_is_aborted_and_its_producer_fenced(level: int) -> None:
    shard = Shard(transaction_version=level)
    version = 2 if level == 2 else 0
    producer_id, _ = shard.open_transaction(version)
    shard.wait(59_999)
    assert shard.known == ("Ongoing", producer_id, 0)
    shard.wait(1)
    assert shard.known == ("PrepareAbort", producer_id, 1)
    assert list(shard.of().partitions) == [T0]
    assert shard.of().client_version == version
    shard.give_markers()
    assert shard.known == ("CompleteAbort", producer_id, 1)
    assert shard.add(producer_id, 0) == FENCED
    assert shard.end(producer_id, 0, version=0)[0] == FENCED
    # Apache Kafka 4.3: a v2 client that aborts learns the epoch, one that commits learns that it may not
    codes = [shard.end(producer_id, 0, commit=commit)[0] for commit in (True, False)]
    assert codes == [INVALID_TXN_STATE, 0]


def test_the_time_of_an_ended_transaction_ends_no_later_one(shard: Shard) -> None:
    producer_id, epoch = shard.open_transaction()
    shard.wait(50_000)
    _, _, epoch = shard.end(producer_id, epoch)
    shard.give_markers()
    shard.wait(5_000)
    assert shard.add(producer_id, epoch) == 0
    shard.wait(59_999)
    assert shard.known[0] == "Ongoing"
    shard.wait(1)
    assert shard.known[0] == "PrepareAbort"


def test_a_loaded_transaction_has_what_is_left_of_its_time(shard: Shard) -> None:
    shard.open_transaction()
    shard.wait(50_000)
    shard.reload()
    shard.wait(9_999)
    assert shard.known[0] == "Ongoing"
    shard.wait(1)
    assert shard.known[0] == "PrepareAbort"


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
def test_a_clock_that_is_set_ends_no_transaction_and_prolongs_none(shard: Shard, step_ms: int) -> None:
    shard.open_transaction()
    shard.wall_ms += step_ms
    shard.wait(59_999)
    assert shard.known[0] == "Ongoing"
    shard.wait(1)
    assert shard.known[0] == "PrepareAbort"


def test_a_time_out_that_cannot_be_written_is_tried_again(shard: Shard) -> None:
    shard.open_transaction()
    shard.is_append_failing = True
    shard.wait(60_000)
    assert shard.known[0] == "Ongoing"
    shard.is_append_failing = False
    shard.wait(500)
    assert shard.known[0] == "PrepareAbort"


def test_a_decision_that_cannot_be_written_changes_nothing(shard: Shard) -> None:
    producer_id, epoch = shard.open_transaction()
    shard.is_append_failing = True
    refused = shard.ask(EndTransaction(NAME, producer_id, epoch, is_commit=True, client_version=2))
    assert isinstance(refused, KafkaError)
    shard.is_append_failing = False
    assert shard.known == ("Ongoing", producer_id, epoch)
    assert shard.end(producer_id, epoch) == (0, producer_id, epoch + 1)


def test_markers_are_reported_once(shard: Shard) -> None:
    producer_id, epoch = shard.open_transaction()
    _, _, epoch = shard.end(producer_id, epoch)
    report = MarkersWritten(NAME, producer_id, epoch)
    before = len(shard.log)
    assert shard.ask(MarkersWritten(NAME, producer_id, epoch - 1)) == TransactionAnswer()
    assert len(shard.log) == before
    assert [shard.ask(each) for each in (report, report)] == [TransactionAnswer()] * 2
    assert len(shard.log) == before + 1


def test_a_level_that_is_lowered_writes_older_records_and_keeps_what_is_open() -> None:
    shard = Shard(transaction_version=2)
    producer_id, epoch = shard.open_transaction()
    assert shard.log[-1][1][:2] == b"\0\1"  # type: ignore[index]
    shard.finalize(0)
    assert shard.end(producer_id, epoch, version=0)[0] == 0
    assert shard.log[-1][1][:2] == b"\0\0"  # type: ignore[index]
    shard.reload()
    assert shard.known == ("PrepareCommit", producer_id, epoch)
    shard.give_markers()
    shard.finalize(2)
    assert shard.add(producer_id, epoch) == 0
    assert shard.end(producer_id, epoch) == (0, producer_id, epoch + 1)


def test_transactions_v2_are_refused_at_level_0_and_nothing_changes() -> None:
    shard = Shard(transaction_version=0)
    _, producer_id, _ = shard.init()
    before = list(shard.log)
    assert shard.add(producer_id, 0, version=2) == 35
    assert shard.end(producer_id, 0, commit=False) == (35, -1, -1)
    assert shard.end(producer_id, 1)[0] == FENCED
    assert shard.log == before
    assert shard.add(producer_id, 0, version=0) == 0
    assert shard.add(producer_id, 0, version=2) == 0, "it is in already"
    assert shard.end(producer_id, 0, version=0)[0] == 0


def test_a_shard_stopped_by_nothing_that_a_client_sends(shard: Shard) -> None:
    values: list[Any] = [-1, 0, 32_766, 32_767, -32_768]
    for state in (S.EMPTY, S.ONGOING, S.PREPARE_ABORT, S.COMPLETE_COMMIT):
        for epoch in (0, 32_766, 32_767):
            for asked in values:
                for commit in (True, False):
                    for version in (0, 2):
                        shard.at(state, epoch=epoch)
                        shard.end(1000, asked, commit=commit, version=version)
                        shard.at(state, epoch=epoch)
                        shard.add(1000, asked, version=version)
                        shard.at(state, epoch=epoch)
                        shard.init(1000, asked)
    assert shard.host.stopped is None
