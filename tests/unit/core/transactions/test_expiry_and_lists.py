"""Unused transactional ids expire; DescribeTransactions and ListTransactions."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.core.transactions.expiry import MAX_BATCH_IDS
from moldau.core.transactions.requests import (
    DescribeTransaction,
    ListedTransactions,
    ListTransactions,
)
from moldau.core.transactions.state import TransactionState
from moldau.wire.protocol.messages.transactions import DescribedTransaction
from tests.unit.core.transactions.conftest import NAME, T1, Shard

S = TransactionState
WEEK_MS = 604_800_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("state", "is_kept"),
    [
        (S.EMPTY, False),
        (S.COMPLETE_COMMIT, False),
        (S.COMPLETE_ABORT, False),
        (S.PREPARE_COMMIT, True),
        (S.PREPARE_ABORT, True),
    ],
)
def test_an_id_that_nobody_uses_is_forgotten_after_its_time(shard: Shard, state: S, is_kept: bool) -> None:
    shard.at(state)
    shard.wait(WEEK_MS - HOUR_MS)
    assert NAME in shard.state.transactions
    shard.wait(2 * HOUR_MS)
    assert (NAME in shard.state.transactions) == is_kept
    shard.reload()
    assert (NAME in shard.state.transactions) == is_kept


def test_an_id_that_is_used_stays() -> None:
    shard = Shard()
    shard.init(name="old")
    shard.wait(WEEK_MS // 2)
    shard.init(name="used")
    shard.wait(WEEK_MS // 2 + HOUR_MS)
    assert list(shard.state.transactions) == ["used"]


def test_many_ids_expire_in_several_batches_of_one_round() -> None:
    shard = Shard()
    for number in range(MAX_BATCH_IDS + 1):
        shard.init(name=f"tx-{number}")
    before = len(shard.log)
    shard.wait(WEEK_MS + HOUR_MS)
    assert not shard.state.transactions
    assert len(shard.log) - before == MAX_BATCH_IDS + 1


def test_a_transaction_is_described_with_its_partitions(shard: Shard) -> None:
    producer_id, epoch = shard.open_transaction()
    shard.add(producer_id, epoch, T1)
    described: Any = shard.ask(DescribeTransaction(NAME))
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("t", (0, 1))]
    assert (described.error_code, described.transaction_state, described.transaction_timeout_ms) == (
        0,
        "Ongoing",
        60_000,
    )
    assert described.transaction_start_time_ms == shard.wall_ms
    assert shard.ask(DescribeTransaction("unknown")) == DescribedTransaction(105, "unknown")


def names(shard: Shard, **filters: Any) -> list[str]:
    answer = shard.ask(ListTransactions(**filters))
    assert isinstance(answer, ListedTransactions)
    return [one.transactional_id for one in answer.transactions]


def test_lists_are_filtered_by_state_producer_time_and_pattern(shard: Shard) -> None:
    shard.open_transaction(name="app-1")
    shard.wait(1_000)
    second, _ = shard.open_transaction(name="app-2")
    shard.init(name="other")
    assert names(shard) == ["app-1", "app-2", "other"]
    assert names(shard, states=(S.ONGOING,)) == ["app-1", "app-2"]
    assert names(shard, states=()) == []
    assert names(shard, producer_ids=(second,)) == ["app-2"]
    assert names(shard, duration_ms=999, states=(S.ONGOING,)) == ["app-1"]
    assert names(shard, duration_ms=1_000, states=(S.ONGOING,)) == []
    assert names(shard, pattern="app-.*") == ["app-1", "app-2"]
    assert names(shard, pattern="app") == []
