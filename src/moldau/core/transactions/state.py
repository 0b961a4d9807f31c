"""The state of transactional ids in a transaction coordinator (KIP-98, 360, 890).

Each change of a transactional id is one record of `__transaction_state` with its whole state. The last one counts.

    Empty          known, and nothing was written since
    Ongoing        open, with the partitions that have joined
    Prepare...     decided; markers are being written
    Complete...    every partition has its marker

Two states of Kafka are not kept here. Dead is a tombstone in the log. PrepareEpochFence is the time between a decision
and its append, which are one step here: the record that ends the transaction also raises the epoch.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from moldau.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

MAX_PRODUCER_EPOCH = 32_767
"""Reserved for the marker that ends the last transaction of a producer id. No producer gets it."""
TRANSACTIONS_V2 = 2
"""The level of `transaction.version` from which each transaction has its own epoch."""


class TransactionState(enum.IntEnum):
    """The states, numbered as in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name of the state in tools: `PrepareCommit`."""
        return "".join(word.title() for word in self.name.split("_"))


STATES_BY_LABEL: Mapping[str, TransactionState] = {state.label: state for state in TransactionState}
PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
EXPIRING = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
"""The states in which an unused transactional id expires."""


class TransactionMetadata(msgspec.Struct, frozen=True):
    """One transactional id. Times in ms of the wall clock; -1: none."""

    producer_id: int
    producer_epoch: int
    state: TransactionState
    timeout_ms: int
    partitions: Mapping[TopicPartition, None] = {}
    """In the order in which they joined. Never changed, but replaced."""
    start_ms: int = -1
    last_update_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last change: a client that did not get the response repeats its request with it."""
    next_producer_id: int = NO_PRODUCER_ID
    """After the last epoch of the producer id: the one that replaces it at the end of the transaction."""
    client_version: int = 0
    """The level of transactions that the client uses, which its markers have."""
    last_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before the last change, for a client that repeats its request. As in Kafka it is not in the log: a
    repeat after a restart of the coordinator is fenced."""

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the next epoch would be the reserved one."""
        return self.producer_epoch >= MAX_PRODUCER_EPOCH - 1

    def is_next_producer(self, producer_id: int) -> bool:
        """Whether this producer id takes over after all markers. The client may have it already, from the response to
        EndTxn."""
        return producer_id == self.next_producer_id != NO_PRODUCER_ID


class TransactionRecord(msgspec.Struct, frozen=True):
    """One record of `__transaction_state`. Without metadata the transactional id is removed."""

    transactional_id: str
    metadata: TransactionMetadata | None
    version: int = 1
    """The version of the value. Brokers before Kafka 4.0 can read 0, which lacks the fields of transactions v2."""


class TransactionsState:
    """The transactional ids of one partition of `__transaction_state`."""

    __slots__ = ("transaction_version", "transactions")

    def __init__(self) -> None:
        self.transactions: dict[str, TransactionMetadata] = {}
        """Oldest last change first."""
        self.transaction_version = 0
        """The finalized level of `transaction.version`, from the metadata and not from this log."""


def fold_record(state: TransactionsState, record: TransactionRecord) -> None:
    """Applies one record of the log; only this changes durable state."""
    state.transactions.pop(record.transactional_id, None)
    if record.metadata is not None:
        state.transactions[record.transactional_id] = record.metadata
