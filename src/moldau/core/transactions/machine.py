"""The transaction coordinator of one partition of `__transaction_state`, as a state machine.

Requests and responses: requests.py. Records: state.py. Every decision that changes a transactional id is one record.
`decide` raises no KafkaError: a rejection is a response with Kafka's error code. The record says which partitions need
markers. The broker sends them after the commit of a record with a Prepare state, and after a load.

Steady time ends transactions, wall time goes into records.
"""

from __future__ import annotations

from typing import assert_never

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.coordination.machine import Decision, Now, Timer
from moldau.core.metadata.features import TRANSACTION_VERSION
from moldau.core.metadata.image import MetadataDelta, MetadataImage
from moldau.core.transactions.beginning import add_partitions, init_producer_id, verify_partitions
from moldau.core.transactions.describing import describe_transaction, list_transactions
from moldau.core.transactions.ending import Outcome, complete, end_transaction, refused, time_out
from moldau.core.transactions.expiry import expired_ids
from moldau.core.transactions.requests import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    ExpireTransactionalIds,
    InitProducerId,
    ListTransactions,
    MarkersWritten,
    TimedOut,
    TransactionRequest,
    TransactionResponse,
    VerifyPartitions,
)
from moldau.core.transactions.state import (
    TRANSACTIONS_V2,
    TransactionMetadata,
    TransactionRecord,
    TransactionsState,
    TransactionState,
    fold_record,
)
from moldau.errors import ERROR_CODES
from moldau.types import Offset, Pausing, ProducerEpoch, ProducerId

TransactionDecision = Decision[TransactionRequest, TransactionResponse, TransactionRecord]
TransactionTimer = Timer[TransactionRequest]

VALUE_V1_FROM = 1
"""The level of `transaction.version` from which values are written in version 1."""
UNSUPPORTED_VERSION = ERROR_CODES["UNSUPPORTED_VERSION"]
EXPIRY = ("expire",)


class TransactionMachine:
    """`Machine[TransactionsState, TransactionRequest, TransactionResponse, TransactionRecord]`. The state is an
    argument."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings

    def new_state(self) -> TransactionsState:
        return TransactionsState()

    def decide(
        self, state: TransactionsState, request_id: int, request: TransactionRequest, now: Now
    ) -> TransactionDecision | Pausing[TransactionDecision]:
        match request:
            case InitProducerId():
                outcome = init_producer_id(state, self._settings, request, now)
            case AddPartitions():
                outcome = _if_level_allows(
                    state, request, add_partitions(state, request, now, self._settings.message_max_bytes)
                )
            case EndTransaction():
                outcome = _if_level_allows(state, request, end_transaction(state, request, now))
            case MarkersWritten():
                outcome = complete(state, request, now)
            case TimedOut():
                changed = time_out(state, request, now)
                return _change(state, request.transactional_id, changed, now)
            case VerifyPartitions():
                return Decision(replies=((request_id, verify_partitions(state, request)),))
            case DescribeTransaction():
                return Decision(replies=((request_id, describe_transaction(state, request)),))
            case ListTransactions():
                return _listed(state, request_id, request, now)
            case ExpireTransactionalIds():
                return self._expire(state, now)
            case _:
                assert_never(request)
        return _decision(state, request_id, request.transactional_id, outcome, now)

    def _expire(self, state: TransactionsState, now: Now) -> Pausing[TransactionDecision]:
        names, is_all = yield from expired_ids(state, now.wall_ms - self._settings.transactional_id_expiration_ms)
        delay_ms = self._settings.transaction_remove_expired_transaction_cleanup_interval_ms if is_all else 0
        timer: TransactionTimer = Timer(EXPIRY, now.steady_ms + delay_ms, ExpireTransactionalIds())
        return Decision(tuple(TransactionRecord(name, None) for name in names), timers=(timer,))

    def decide_loaded(self, state: TransactionsState, image: MetadataImage, now: Now) -> TransactionDecision:
        """An open transaction has the rest of its time, by the wall clock in its record."""
        state.transaction_version = image.features.get(TRANSACTION_VERSION, 0)
        delay_ms = self._settings.transaction_remove_expired_transaction_cleanup_interval_ms
        timers: list[TransactionTimer] = [Timer(EXPIRY, now.steady_ms + delay_ms, ExpireTransactionalIds())]
        for name, known in state.transactions.items():
            if known.state is TransactionState.ONGOING:
                left_ms = known.start_ms + known.timeout_ms - now.wall_ms
                timers.append(_time_out_in(name, known, now, min(max(left_ms, 0), known.timeout_ms)))
        return Decision(timers=tuple(timers))

    def decide_metadata(
        self, state: TransactionsState, image: MetadataImage, delta: MetadataDelta, now: Now
    ) -> TransactionDecision:
        """The level of `transaction.version` may have changed. New records are written for it."""
        state.transaction_version = image.features.get(TRANSACTION_VERSION, 0)
        return Decision()

    def apply(
        self,
        state: TransactionsState,
        offset: Offset,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        record: TransactionRecord,
    ) -> None:
        fold_record(state, record)

    def apply_end_transaction(
        self, state: TransactionsState, producer_id: ProducerId, producer_epoch: ProducerEpoch, committed: bool
    ) -> None:
        """Nothing: this log has no transactions of producers."""


def _if_level_allows(state: TransactionsState, request: AddPartitions | EndTransaction, outcome: Outcome) -> Outcome:
    """Rejects transactions v2 if the level is below 1, because they cannot be stored. (Apache Kafka fails during the
    write, and answers 51 from then on.)"""
    _, changed = outcome
    is_v2 = request.client_version >= TRANSACTIONS_V2
    return refused(UNSUPPORTED_VERSION) if is_v2 and changed and state.transaction_version < VALUE_V1_FROM else outcome


def _decision(
    state: TransactionsState, request_id: int, transactional_id: str, outcome: Outcome, now: Now
) -> TransactionDecision:
    answer, changed = outcome
    replies = ((request_id, answer),)
    if changed is None:
        return Decision(replies=replies)
    decision = _change(state, transactional_id, changed, now)
    return Decision(decision.records, replies, decision.timers)


def _change(
    state: TransactionsState, transactional_id: str, changed: TransactionMetadata | None, now: Now
) -> TransactionDecision:
    """One record, and the timer of a transaction that begins or ends."""
    if changed is None:
        return Decision()
    record = TransactionRecord(transactional_id, changed, int(state.transaction_version >= VALUE_V1_FROM))
    known = state.transactions.get(transactional_id)
    was_open = known is not None and known.state is TransactionState.ONGOING
    is_open = changed.state is TransactionState.ONGOING
    timers: tuple[TransactionTimer, ...] = ()
    if is_open and not was_open:
        timers = (_time_out_in(transactional_id, changed, now, changed.timeout_ms),)
    elif was_open and not is_open:
        timers = (Timer(("time out", transactional_id), None),)
    return Decision((record,), timers=timers)


def _time_out_in(transactional_id: str, metadata: TransactionMetadata, now: Now, delay_ms: int) -> TransactionTimer:
    firing = TimedOut(transactional_id, metadata.start_ms)
    return Timer(("time out", transactional_id), now.steady_ms + delay_ms, firing)


def _listed(
    state: TransactionsState, request_id: int, request: ListTransactions, now: Now
) -> Pausing[TransactionDecision]:
    return Decision(replies=((request_id, (yield from list_transactions(state, request, now.wall_ms))),))
