"""Counts the events of transactions in a story, because a rule that is never tested proves nothing.

The clients count most events; `TransactionWatch` reads the others from the coordinators.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from moldau.core.transactions.state import MAX_PRODUCER_EPOCH, PREPARED, TransactionMetadata, TransactionState
from moldau.shell.broker.coordination.transactions import TransactionCoordinators

LAST_EPOCHS = 5
"""A new producer id this close to the last epoch replaces the used-up one."""
ABORTED = (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)


class TransactionEvent(enum.Enum):
    """The events, with their names in the report."""

    BEGUN = "begun"
    JOINED_BY_PRODUCE = "a partition joined by Produce"
    JOINED_BY_ADD_PARTITIONS = "a partition joined by AddPartitionsToTxn"
    OFFSETS_JOINED_BY_ADD_OFFSETS = "offsets joined by AddOffsetsToTxn"
    OFFSETS_JOINED_BY_COMMIT = "offsets joined by TxnOffsetCommit"
    COMMITTED_V1 = "committed, v1"
    COMMITTED_V2 = "committed, v2"
    ABORTED_V1 = "aborted by the client, v1"
    ABORTED_V2 = "aborted by the client, v2"
    TIMED_OUT = "aborted for its time-out"
    ABORTED_BY_SUCCESSOR = "aborted by the next producer of the transactional id"
    FENCED = "a producer is fenced"
    RESUMED = "a producer goes on with its own epoch (KIP-360)"
    EPOCHS_USED_UP = "the epochs of a producer id are used up"
    END_REPEATED = "an EndTxn is repeated, v2"
    LATE_END_REFUSED = "a late EndTxn is refused, v2"
    END_WAITED = "a request waits for the markers of the transaction before"
    MARKER_READ = "a marker is read"
    MARKER_RETRIED = "a marker is tried again"
    OPEN_AT_CRASH = "open when the process dies"
    DECIDED_AT_CRASH = "decided, not ended, when the process dies"
    ID_EXPIRED = "a transactional id expires"
    VERIFICATION_REFUSED = "a batch that no transaction has room for is refused"
    BATCH_REPEATED = "a batch of an aborted transaction is sent again in a later one"
    OFFSETS_UNSTABLE = "a reader of positions waits for an open transaction"
    ABORTED_SKIPPED = "a reader skips aborted records"


Count = Callable[[TransactionEvent], None]


class TransactionWatch:
    """Events that only the coordinators know. Reads them often, and changes nothing."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self.when_decided: Callable[[], None] | None = None
        """Called once, at the next decision of a coordinator, when it is appended but not flushed."""
        self._seen: dict[int, dict[str, TransactionMetadata]] = {}
        """The metadata by partition of `__transaction_state`, over all processes."""
        self._retries = 0
        """The counted retries of the running process."""

    def look(self, coordinators: TransactionCoordinators) -> None:
        for index, transactions in coordinators.loaded_states():
            seen = self._seen.setdefault(index, {})
            for name, known in transactions.items():
                before = seen.get(name)
                if before is not known:
                    if before is not None:
                        self._changed(before, known)
                    seen[name] = known
            if len(seen) > len(transactions):
                for name in [name for name in seen if name not in transactions]:
                    del seen[name]
                    self._count(TransactionEvent.ID_EXPIRED)
        retries = coordinators.markers.retries
        for _ in range(self._retries, retries):
            self._count(TransactionEvent.MARKER_RETRIED)
        self._retries = retries

    def _changed(self, before: TransactionMetadata, now: TransactionMetadata) -> None:
        if now.producer_id != before.producer_id and before.producer_epoch >= MAX_PRODUCER_EPOCH - LAST_EPOCHS:
            self._count(TransactionEvent.EPOCHS_USED_UP)
        was_open = before.state is TransactionState.ONGOING and now.start_ms == before.start_ms
        if was_open and now.state in ABORTED and now.last_update_ms - now.start_ms >= now.timeout_ms:
            self._count(TransactionEvent.TIMED_OUT)
        if now.state in PREPARED and self.when_decided is not None:
            when_decided, self.when_decided = self.when_decided, None
            when_decided()

    def process_dies(self, coordinators: TransactionCoordinators) -> None:
        for _, transactions in coordinators.loaded_states():
            for known in transactions.values():
                if known.state is TransactionState.ONGOING:
                    self._count(TransactionEvent.OPEN_AT_CRASH)
                elif known.state in PREPARED:
                    self._count(TransactionEvent.DECIDED_AT_CRASH)
        self._retries = 0
