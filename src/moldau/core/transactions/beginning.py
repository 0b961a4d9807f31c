"""InitProducerId and AddPartitionsToTxn: begins transactions and fences producers."""

from __future__ import annotations

from msgspec.structs import replace

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.coordination.machine import Now
from moldau.core.transactions.ending import NEEDS_PRODUCER_ID, Outcome, prepare_abort_and_fence, refused
from moldau.core.transactions.requests import (
    AddPartitions,
    InitProducerId,
    TransactionAnswer,
    VerifiedPartitions,
    VerifyPartitions,
)
from moldau.core.transactions.state import (
    MAX_PRODUCER_EPOCH,
    PREPARED,
    TransactionMetadata,
    TransactionsState,
    TransactionState,
)
from moldau.errors import ERROR_CODES
from moldau.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

CONCURRENT_TRANSACTIONS = ERROR_CODES["CONCURRENT_TRANSACTIONS"]
INVALID_PRODUCER_ID_MAPPING = ERROR_CODES["INVALID_PRODUCER_ID_MAPPING"]
POLICY_VIOLATION = ERROR_CODES["POLICY_VIOLATION"]
PRODUCER_FENCED = ERROR_CODES["PRODUCER_FENCED"]
TRANSACTION_ABORTABLE = ERROR_CODES["TRANSACTION_ABORTABLE"]
SHORT_LIST = 1_000
"""So many partitions always fit in one record, even with the longest topic names."""
ROOM_BYTES = 1_024
"""The bytes of a record besides its partitions."""


def init_producer_id(state: TransactionsState, settings: BrokerSettings, request: InitProducerId, now: Now) -> Outcome:
    """Fences the present producer of the transactional id with a higher epoch (KIP-98), unless the client names its own
    epoch (KIP-360). An open transaction is aborted first, and the client asks again."""
    known = state.transactions.get(request.transactional_id)
    if known is None:
        return _first(state, settings, request, now)
    has_expectation = request.producer_id != NO_PRODUCER_ID
    if has_expectation and not _is_own(known, request):
        return refused(PRODUCER_FENCED)
    if known.state in PREPARED:
        return refused(CONCURRENT_TRANSACTIONS)
    if known.state is TransactionState.ONGOING:
        aborted = prepare_abort_and_fence(known, state.transaction_version, now.wall_ms)
        return TransactionAnswer(CONCURRENT_TRANSACTIONS), aborted
    epoch, last_epoch = known.producer_epoch, known.last_epoch
    # the broker has aborted the last transaction of this producer id, whose producer can have no higher epoch
    is_last_aborted = epoch >= MAX_PRODUCER_EPOCH and request.producer_epoch == last_epoch
    if known.is_epoch_exhausted and (not has_expectation or request.producer_epoch == epoch or is_last_aborted):
        if request.new_producer_id == NO_PRODUCER_ID:
            return NEEDS_PRODUCER_ID
        return _begun(known, request, now, request.new_producer_id, 0, request.producer_epoch)
    if not has_expectation:
        return _begun(known, request, now, known.producer_id, epoch + 1, NO_PRODUCER_EPOCH)
    if request.producer_epoch == epoch:
        return _begun(known, request, now, known.producer_id, epoch + 1, epoch)
    if request.producer_epoch == last_epoch:
        # the client did not get the response. No other producer has begun since, because the last epoch is known
        return _begun(known, request, now, known.producer_id, epoch, last_epoch)
    return refused(PRODUCER_FENCED)


def _first(state: TransactionsState, settings: BrokerSettings, request: InitProducerId, now: Now) -> Outcome:
    if len(state.transactions) >= settings.moldau_transactional_ids:
        return refused(POLICY_VIOLATION)
    if request.new_producer_id == NO_PRODUCER_ID:
        return NEEDS_PRODUCER_ID
    created = TransactionMetadata(
        producer_id=request.new_producer_id,
        producer_epoch=NO_PRODUCER_EPOCH,
        state=TransactionState.EMPTY,
        timeout_ms=request.timeout_ms,
    )
    return _begun(created, request, now, created.producer_id, 0, NO_PRODUCER_EPOCH)


def _is_own(known: TransactionMetadata, request: InitProducerId) -> bool:
    """Whether the producer id is the present one or the next one. Or it is the previous one, whose epochs were
    exhausted, and the response with the present one was lost."""
    if request.producer_id == known.producer_id or known.is_next_producer(request.producer_id):
        return True
    was_exhausted = request.producer_epoch >= MAX_PRODUCER_EPOCH - 1
    return request.producer_id == known.previous_producer_id and was_exhausted


def _begun(
    known: TransactionMetadata, request: InitProducerId, now: Now, producer_id: int, epoch: int, last_epoch: int
) -> Outcome:
    begun = replace(
        known,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_epoch=last_epoch,
        previous_producer_id=known.producer_id,
        state=TransactionState.EMPTY,
        timeout_ms=request.timeout_ms,
        partitions={},
        start_ms=-1,
        last_update_ms=now.wall_ms,
    )
    return TransactionAnswer(producer_id=producer_id, producer_epoch=epoch), begun


def add_partitions(state: TransactionsState, request: AddPartitions, now: Now, max_bytes: int) -> Outcome:
    """Adds partitions to the open transaction, which begins with the first of them. `max_bytes`: of the record, which
    must also fit with the end of the transaction."""
    known = state.transactions.get(request.transactional_id)
    code = _fault(request, known)
    if code or known is None:
        return refused(code)
    if request.producer_epoch >= MAX_PRODUCER_EPOCH:
        return refused(PRODUCER_FENCED)
    is_open = known.state is TransactionState.ONGOING
    if len(known.partitions) + len(request.partitions) > SHORT_LIST and _size(known, request) > max_bytes:
        return refused(POLICY_VIOLATION)
    added = [partition for partition in request.partitions if partition not in known.partitions]
    if is_open and not added:
        return TransactionAnswer(), None
    joined = replace(
        known,
        state=TransactionState.ONGOING,
        partitions={**known.partitions, **dict.fromkeys(added)},
        previous_producer_id=known.producer_id,
        start_ms=known.start_ms if is_open else now.wall_ms,
        last_update_ms=now.wall_ms,
        client_version=request.client_version,
    )
    return TransactionAnswer(), joined


def _size(known: TransactionMetadata, request: AddPartitions) -> int:
    """The approximate size of the record in bytes."""
    topics = {place.topic: None for places in (known.partitions, request.partitions) for place in places}
    rows = len(known.partitions) + len(request.partitions)
    return ROOM_BYTES + 4 * rows + sum(len(topic) + 8 for topic in topics) + 4 * len(request.transactional_id)


def verify_partitions(state: TransactionsState, request: VerifyPartitions) -> VerifiedPartitions:
    """The partitions that are in the open transaction (KIP-890)."""
    known = state.transactions.get(request.transactional_id)
    code = _fault(request, known)
    if code or known is None:
        return VerifiedPartitions((code,) * len(request.partitions))
    return VerifiedPartitions(
        tuple(0 if partition in known.partitions else TRANSACTION_ABORTABLE for partition in request.partitions)
    )


def _fault(request: AddPartitions | VerifyPartitions, known: TransactionMetadata | None) -> int:
    if known is None:
        return INVALID_PRODUCER_ID_MAPPING
    if known.is_next_producer(request.producer_id):
        return CONCURRENT_TRANSACTIONS
    if known.producer_id != request.producer_id:
        return INVALID_PRODUCER_ID_MAPPING
    if known.producer_epoch != request.producer_epoch:
        return PRODUCER_FENCED
    return CONCURRENT_TRANSACTIONS if known.state in PREPARED else 0
