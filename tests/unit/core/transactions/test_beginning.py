"""InitProducerId, AddPartitionsToTxn and the verification: responses of Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from moldau.core.transactions.requests import InitProducerId, fault_of
from moldau.core.transactions.state import TransactionState
from moldau.types import TopicPartition
from tests.unit.core.transactions.conftest import NAME, T0, T1, Shard

S = TransactionState
MAPPING, CONCURRENT, FENCED, ABORTABLE = 49, 51, 90, 120


def test_a_new_transactional_id_gets_a_producer_id_with_epoch_0(shard: Shard) -> None:
    assert shard.init() == (0, 1000, 0)
    assert shard.known == ("Empty", 1000, 0)
    assert shard.of().timeout_ms == 60_000


def test_a_new_transactional_id_takes_no_producer_id_that_a_client_names(shard: Shard) -> None:
    assert shard.init(77, 3) == (0, 1000, 0)


def test_each_new_producer_fences_the_one_before(shard: Shard) -> None:
    assert [shard.init() for _ in range(3)] == [(0, 1000, 0), (0, 1000, 1), (0, 1000, 2)]
    assert shard.add(1000, 1) == FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001, 1 << 31])
def test_a_time_out_must_be_above_0_and_within_the_brokers_maximum(timeout_ms: int) -> None:
    assert fault_of(InitProducerId(NAME, timeout_ms), 900_000) == 50
    assert fault_of(InitProducerId("", timeout_ms), 900_000) == 42
    assert fault_of(InitProducerId(NAME, 900_000), 900_000) == 0


def test_a_producer_goes_on_with_its_own_epoch_and_repeats_in_vain(shard: Shard) -> None:
    shard.init()
    assert shard.init(1000, 0) == (0, 1000, 1)
    assert shard.init(1000, 0) == (0, 1000, 1), "it had no answer"
    assert shard.init(1000, 1) == (0, 1000, 2)
    assert shard.init(1000, 0) == (FENCED, -1, -1)
    assert shard.init(1000, 7) == (FENCED, -1, -1)
    assert shard.init(77, 2) == (FENCED, -1, -1)


def test_after_a_new_producer_the_one_before_cannot_go_on(shard: Shard) -> None:
    shard.init()
    shard.init(1000, 0)
    assert shard.init() == (0, 1000, 2)
    assert shard.init(1000, 1) == (FENCED, -1, -1)
    assert shard.init(1000, 0) == (FENCED, -1, -1)


def test_a_repeat_that_comes_after_a_restart_of_the_coordinator_is_fenced(shard: Shard) -> None:
    """The last epoch is not in the log, as in Apache Kafka."""
    shard.init()
    shard.init(1000, 0)
    shard.reload()
    assert shard.init(1000, 0) == (FENCED, -1, -1)
    assert shard.init(1000, 1) == (0, 1000, 2)


@pytest.mark.parametrize("has_expectation", [True, False])
def test_epochs_that_are_used_up_lead_to_a_new_producer_id(shard: Shard, has_expectation: bool) -> None:
    shard.at(S.COMPLETE_COMMIT, epoch=32_766)
    own = (1000, 32_766) if has_expectation else (-1, -1)
    assert shard.init(1000, 32_700) == (FENCED, -1, -1)
    assert shard.init(*own) == (0, 1001, 0)
    if has_expectation:
        assert shard.init(*own) == (0, 1001, 0), "it had no answer"
    assert shard.init(1000, 32_765) == (FENCED, -1, -1)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_new_producer_aborts_what_is_open_and_asks_again(level: int) -> None:
    shard = Shard(transaction_version=level)
    producer_id, _ = shard.open_transaction(version=level)
    assert shard.init() == (CONCURRENT, -1, -1)
    assert shard.known == ("PrepareAbort", producer_id, 1)
    assert shard.init() == (CONCURRENT, -1, -1)
    shard.give_markers()
    assert shard.init() == (0, producer_id, 2)
    assert shard.known == ("Empty", producer_id, 2)


def test_a_stale_producer_id_aborts_nothing(shard: Shard) -> None:
    shard.open_transaction()
    assert shard.init(77, 0) == (FENCED, -1, -1)
    assert shard.known[0] == "Ongoing"


def test_a_new_producer_while_the_last_epoch_is_in_use_gets_a_new_producer_id(shard: Shard) -> None:
    shard.at(S.ONGOING, epoch=32_766)
    assert shard.init() == (CONCURRENT, -1, -1)
    assert shard.known == ("PrepareAbort", 1000, 32_767)
    shard.give_markers()
    assert shard.known == ("CompleteAbort", 1000, 32_767)
    assert shard.init() == (0, 1001, 0)


def test_a_producer_gets_a_new_id_after_its_last_transaction_was_aborted(shard: Shard) -> None:
    shard.at(S.ONGOING, epoch=32_766)
    shard.init()
    shard.give_markers()
    assert shard.known == ("CompleteAbort", 1000, 32_767)
    assert shard.init(1000, 32_766) == (0, 1001, 0)
    assert shard.init(1000, 32_766) == (0, 1001, 0), "the answer was lost"
    assert shard.add(1001, 0) == 0


def test_an_id_is_asked_for_only_where_it_is_needed(shard: Shard) -> None:
    first = shard.ask(InitProducerId(NAME, 1000))
    assert (first.needs_producer_id, shard.log) == (True, [])
    shard.init()
    assert not shard.ask(InitProducerId(NAME, 1000)).needs_producer_id


def test_transactional_ids_have_a_bound() -> None:
    shard = Shard(moldau_transactional_ids=2)
    assert [shard.init(name=name)[0] for name in "abc"] == [0, 0, 44]
    assert shard.init(name="a")[0] == 0


def test_partitions_join_once_and_keep_their_order(shard: Shard) -> None:
    producer_id, epoch = shard.open_transaction()
    start_ms = shard.of().start_ms
    shard.wait(10)
    records = len(shard.log)
    assert shard.add(producer_id, epoch, T0) == 0
    assert len(shard.log) == records
    assert shard.add(producer_id, epoch, T0, T1) == 0
    assert len(shard.log) == records + 1
    assert list(shard.of().partitions) == [T0, T1]
    assert shard.of().start_ms == start_ms


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (S.EMPTY, 0),
        (S.ONGOING, 0),
        (S.PREPARE_COMMIT, CONCURRENT),
        (S.PREPARE_ABORT, CONCURRENT),
        (S.COMPLETE_COMMIT, 0),
        (S.COMPLETE_ABORT, 0),
    ],
)
def test_partitions_join_unless_the_transaction_is_ending(shard: Shard, state: S, code: int) -> None:
    shard.at(state, epoch=5)
    assert shard.add(1000, 4, T1) == FENCED
    assert shard.add(1000, 6, T1) == FENCED
    assert shard.add(77, 5, T1) == MAPPING
    assert shard.add(1000, 5, T1, name="unknown") == MAPPING
    assert shard.of().state is state
    assert shard.add(1000, 5, T1) == code
    assert shard.of().state is (S.ONGOING if code == 0 else state)


def test_a_transaction_has_no_more_partitions_than_one_record_can_hold() -> None:
    shard = Shard(message_max_bytes=20_000)
    producer_id, epoch = shard.open_transaction()
    places = [TopicPartition("t", index) for index in range(5_000)]
    assert shard.add(producer_id, epoch, *places[:4_000]) == 0
    assert shard.add(producer_id, epoch, *places[4_000:]) == 44
    assert len(shard.of().partitions) == 4_000
    assert shard.end(producer_id, epoch)[0] == 0
    key, value = shard.log[-1]
    assert len(key) + len(value or b"") < 20_000


def test_verification_says_what_is_in_the_open_transaction_and_adds_nothing(shard: Shard) -> None:
    producer_id, epoch = shard.open_transaction()
    records = len(shard.log)
    assert shard.verify(producer_id, epoch, T0, T1) == (0, ABORTABLE)
    assert shard.verify(producer_id, epoch + 1, T0, T1) == (FENCED, FENCED)
    assert shard.verify(77, epoch) == (MAPPING,)
    assert len(shard.log) == records
    _, _, epoch = shard.end(producer_id, epoch)
    assert shard.verify(producer_id, epoch) == (CONCURRENT,)
    shard.give_markers()
    assert shard.verify(producer_id, epoch) == (ABORTABLE,)
