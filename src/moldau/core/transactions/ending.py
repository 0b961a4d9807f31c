"""The end of a transaction: EndTxn, a timeout, or a new producer of its transactional id.

*v1* (EndTxn v0-4): producer id and epoch stay, and a repeated EndTxn gets 0. So a late EndTxn of an earlier transaction
with the same epoch ends the open one; see docs/reference/compatibility.md.

*v2* (EndTxn v5, KIP-890): each end raises the epoch, and the response has the new one. An EndTxn with the epoch before
is a repeat, or late, and ends nothing. If the epochs of a producer id are used up, the response has a new producer id.
"""

from __future__ import annotations

from msgspec.structs import replace

from moldau.core.coordination.machine import Now
from moldau.core.transactions.requests import EndTransaction, MarkersWritten, TimedOut, TransactionAnswer
from moldau.core.transactions.state import (
    MAX_PRODUCER_EPOCH,
    PREPARED,
    TRANSACTIONS_V2,
    TransactionMetadata,
    TransactionsState,
    TransactionState,
)
from moldau.errors import ERROR_CODES
from moldau.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

CONCURRENT_TRANSACTIONS = ERROR_CODES["CONCURRENT_TRANSACTIONS"]
INVALID_PRODUCER_ID_MAPPING = ERROR_CODES["INVALID_PRODUCER_ID_MAPPING"]
INVALID_TXN_STATE = ERROR_CODES["INVALID_TXN_STATE"]
PRODUCER_FENCED = ERROR_CODES["PRODUCER_FENCED"]

COMPLETED = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)

Outcome = tuple[TransactionAnswer, TransactionMetadata | None]
"""The response, and the new state of the transactional id; None: unchanged."""
NEEDS_PRODUCER_ID: Outcome = (TransactionAnswer(needs_producer_id=True), None)


def refused(error_code: int) -> Outcome:
    """An error response. The transactional id does not change."""
    return TransactionAnswer(error_code), None


def end_transaction(state: TransactionsState, request: EndTransaction, now: Now) -> Outcome:
    """The response to EndTxn, and the new state of the transactional id. INVALID_PRODUCER_ID_MAPPING (49) for an
    unknown id."""
    known = state.transactions.get(request.transactional_id)
    if known is None:
        return refused(INVALID_PRODUCER_ID_MAPPING)
    if request.client_version < TRANSACTIONS_V2:
        return _end_v1(known, request, now)
    return _end_v2(known, request, now)


def _end_v1(known: TransactionMetadata, request: EndTransaction, now: Now) -> Outcome:
    if known.producer_id != request.producer_id:
        return refused(INVALID_PRODUCER_ID_MAPPING)
    if known.producer_epoch != request.producer_epoch:
        return refused(PRODUCER_FENCED)
    if known.state is TransactionState.ONGOING:
        return TransactionAnswer(), _prepared(known, request.is_commit, request.client_version, now.wall_ms)
    if not _is_same_end(known.state, request.is_commit):
        return refused(INVALID_TXN_STATE)
    return refused(CONCURRENT_TRANSACTIONS) if known.state in PREPARED else (TransactionAnswer(), None)


def _end_v2(known: TransactionMetadata, request: EndTransaction, now: Now) -> Outcome:
    if known.is_next_producer(request.producer_id):
        return refused(CONCURRENT_TRANSACTIONS)
    epoch = request.producer_epoch
    is_of_used_up_id = (
        request.producer_id not in (known.producer_id, NO_PRODUCER_ID)
        and request.producer_id == known.previous_producer_id
        and epoch == MAX_PRODUCER_EPOCH - 1
        and known.producer_epoch == 0
    )
    if known.producer_id != request.producer_id and not is_of_used_up_id:
        return refused(INVALID_PRODUCER_ID_MAPPING)
    is_repeat = known.state in (*PREPARED, *COMPLETED) and known.producer_epoch == epoch + 1
    is_repeat = is_repeat or (is_of_used_up_id and known.state in COMPLETED)
    is_next = known.producer_epoch == epoch < MAX_PRODUCER_EPOCH
    if not is_repeat and not is_next:
        return refused(PRODUCER_FENCED)
    if is_next and known.state in PREPARED:
        # the response with this epoch was sent before the markers were written: the client tries again
        return refused(CONCURRENT_TRANSACTIONS)
    if is_repeat:
        if not _is_same_end(known.state, request.is_commit):
            return refused(INVALID_TXN_STATE)
        if known.state in PREPARED:
            return refused(CONCURRENT_TRANSACTIONS)
        if known.producer_epoch >= MAX_PRODUCER_EPOCH:
            return _with_next_producer_id(known, request, now)
        return TransactionAnswer(0, known.producer_id, known.producer_epoch), None
    if known.state is not TransactionState.ONGOING and request.is_commit:
        return refused(INVALID_TXN_STATE)  # an abort is accepted, because adding partitions may have failed
    if known.is_epoch_exhausted and request.new_producer_id == NO_PRODUCER_ID:
        return NEEDS_PRODUCER_ID
    next_producer_id = request.new_producer_id if known.is_epoch_exhausted else NO_PRODUCER_ID
    prepared = _prepared(known, request.is_commit, request.client_version, now.wall_ms, next_producer_id)
    completed = _completed(prepared, now.wall_ms)
    return TransactionAnswer(0, completed.producer_id, completed.producer_epoch), prepared


def _with_next_producer_id(known: TransactionMetadata, request: EndTransaction, now: Now) -> Outcome:
    """Takes the next producer id, which was not requested when the broker aborted the last transaction of this one."""
    if request.new_producer_id == NO_PRODUCER_ID:
        return NEEDS_PRODUCER_ID
    renewed = replace(
        known,
        producer_id=request.new_producer_id,
        producer_epoch=0,
        previous_producer_id=known.producer_id,
        last_update_ms=now.wall_ms,
    )
    return TransactionAnswer(0, renewed.producer_id, renewed.producer_epoch), renewed


def _is_same_end(state: TransactionState, is_commit: bool) -> bool:
    """Whether the transaction ended, or is ending, as requested."""
    if is_commit:
        return state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
    return state in (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)


def _prepared(
    known: TransactionMetadata,
    is_commit: bool,
    client_version: int,
    now_ms: int,
    next_producer_id: int = NO_PRODUCER_ID,
) -> TransactionMetadata:
    """The decided state, before any marker is written. With v2 the marker's epoch is above that of the records."""
    raises_epoch = client_version >= TRANSACTIONS_V2
    return replace(
        known,
        state=TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
        producer_epoch=min(known.producer_epoch + 1, MAX_PRODUCER_EPOCH) if raises_epoch else known.producer_epoch,
        last_epoch=known.producer_epoch if raises_epoch else known.last_epoch,
        previous_producer_id=known.producer_id,
        next_producer_id=next_producer_id,
        # without partitions the transaction had not begun
        start_ms=known.start_ms if known.state is TransactionState.ONGOING else now_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def prepare_abort_and_fence(known: TransactionMetadata, transaction_version: int, now_ms: int) -> TransactionMetadata:
    """The broker aborts the open transaction and fences its producer. `transaction_version`: the finalized level,
    because no client asks."""
    if transaction_version >= TRANSACTIONS_V2:
        return _prepared(known, False, TRANSACTIONS_V2, now_ms)
    epoch = min(known.producer_epoch + 1, MAX_PRODUCER_EPOCH)
    return _prepared(replace(known, producer_epoch=epoch, last_epoch=NO_PRODUCER_EPOCH), False, 0, now_ms)


def time_out(state: TransactionsState, request: TimedOut, now: Now) -> TransactionMetadata | None:
    """The new state of the transactional id; None if that transaction is no longer open."""
    known = state.transactions.get(request.transactional_id)
    if known is None or known.state is not TransactionState.ONGOING or known.start_ms != request.start_ms:
        return None
    return prepare_abort_and_fence(known, state.transaction_version, now.wall_ms)


def complete(state: TransactionsState, request: MarkersWritten, now: Now) -> Outcome:
    """Every partition has its marker. A repeated report is ignored."""
    known = state.transactions.get(request.transactional_id)
    if (
        known is None
        or known.state not in PREPARED
        or (known.producer_id, known.producer_epoch) != (request.producer_id, request.producer_epoch)
    ):
        return TransactionAnswer(), None
    return TransactionAnswer(), _completed(known, now.wall_ms)


def _completed(known: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    is_commit = known.state is TransactionState.PREPARE_COMMIT
    has_new_id = known.client_version >= TRANSACTIONS_V2 and known.next_producer_id != NO_PRODUCER_ID
    return replace(
        known,
        state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        partitions={},
        producer_id=known.next_producer_id if has_new_id else known.producer_id,
        producer_epoch=0 if has_new_id else known.producer_epoch,
        previous_producer_id=known.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        last_update_ms=now_ms,
    )
