"""DescribeTransactions and ListTransactions (KIP-664, 994, 1152)."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.core.transactions.pattern import pattern_for
from moldau.core.transactions.records import partitions_by_topic
from moldau.core.transactions.requests import DescribeTransaction, ListedTransactions, ListTransactions
from moldau.core.transactions.state import PREPARED, TransactionMetadata, TransactionsState
from moldau.errors import ERROR_CODES
from moldau.types import Pausing
from moldau.wire.protocol.messages.transactions import (
    DescribedTransaction,
    DescribeTransactionsTopic,
    ListedTransaction,
)

TRANSACTIONAL_ID_NOT_FOUND = ERROR_CODES["TRANSACTIONAL_ID_NOT_FOUND"]


def describe_transaction(state: TransactionsState, request: DescribeTransaction) -> DescribedTransaction:
    """An ending transaction has those partitions that have no marker yet."""
    name = request.transactional_id
    known = state.transactions.get(name)
    if known is None:
        return DescribedTransaction(TRANSACTIONAL_ID_NOT_FOUND, name)
    is_being_marked = known.state in PREPARED and request.unmarked is not None
    topics = partitions_by_topic(request.unmarked or () if is_being_marked else known.partitions)
    return DescribedTransaction(
        transactional_id=name,
        transaction_state=known.state.label,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.start_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=tuple(DescribeTransactionsTopic(topic, tuple(indexes)) for topic, indexes in topics.items()),
    )


def list_transactions(state: TransactionsState, request: ListTransactions, now_ms: int) -> Pausing[ListedTransactions]:
    """The transactions that match the request. Raises ValueError for a malformed pattern."""
    pattern = pattern_for(request.pattern) if request.pattern else None
    producer_ids = None if request.producer_ids is None else dict.fromkeys(request.producer_ids)
    listed = []
    for name, known in state.transactions.items():
        if _is_asked_for(known, request, producer_ids, now_ms) and (pattern is None or pattern.matches(name)):
            listed.append(ListedTransaction(name, known.producer_id, known.state.label))
        yield
    return ListedTransactions(tuple(listed))


def _is_asked_for(
    known: TransactionMetadata, request: ListTransactions, producer_ids: Mapping[int, None] | None, now_ms: int
) -> bool:
    if request.states is not None and known.state not in request.states:
        return False
    if producer_ids is not None and known.producer_id not in producer_ids:
        return False
    return request.duration_ms < 0 or now_ms - known.start_ms > request.duration_ms
