"""What a transaction machine is asked, and what it answers.

    InitProducerId        -> TransactionAnswer   with a producer id and epoch
    AddPartitions         -> TransactionAnswer
    VerifyPartitions      -> VerifiedPartitions
    EndTransaction        -> TransactionAnswer   v2: with the producer id and epoch of the next transaction
    MarkersWritten        -> TransactionAnswer   of the broker itself, once every partition has its marker
    DescribeTransaction   -> DescribedTransaction
    ListTransactions      -> ListedTransactions  (this shard's part of the list)

Timers fire as `TimedOut` and `ExpireTransactionalIds`: nobody waits for a reply to these.

Whoever asks has judged what needs no state: `fault_of`.

Producer ids come from the controller, which nobody can wait for within a decision: where a new one is needed and the
request brings none, the answer has `needs_producer_id`, nothing has changed, and the request is asked again with one.
"""

from __future__ import annotations

import msgspec

from moldau.core.transactions.state import TransactionState
from moldau.errors import ERROR_CODES
from moldau.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from moldau.wire.protocol.messages.transactions import DescribedTransaction, ListedTransaction

INVALID_REQUEST = ERROR_CODES["INVALID_REQUEST"]
INVALID_TRANSACTION_TIMEOUT = ERROR_CODES["INVALID_TRANSACTION_TIMEOUT"]


class InitProducerId(msgspec.Struct, frozen=True):
    """`producer_id` and `producer_epoch`: what the client has, -1 where it begins (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    new_producer_id: int = NO_PRODUCER_ID


class AddPartitions(msgspec.Struct, frozen=True):
    """`client_version`: 2 where the client uses transactions v2, else 0."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    client_version: int = 0


class VerifyPartitions(msgspec.Struct, frozen=True):
    """Are these partitions in the open transaction? None is added (KIP-890)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


class EndTransaction(msgspec.Struct, frozen=True):
    """`client_version` 2: EndTxn v5 and later."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    client_version: int = 0
    new_producer_id: int = NO_PRODUCER_ID


class MarkersWritten(msgspec.Struct, frozen=True):
    """Every partition has the marker of the transaction that was prepared with this producer id and epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class TimedOut(msgspec.Struct, frozen=True):
    """The time of the transaction that began at `start_ms` is over."""

    transactional_id: str
    start_ms: int


class ExpireTransactionalIds(msgspec.Struct, frozen=True):
    """The time to look for transactional ids that nobody uses any more."""


class DescribeTransaction(msgspec.Struct, frozen=True):
    transactional_id: str
    unmarked: tuple[TopicPartition, ...] | None = None
    """While the transaction is ending: the partitions that have no marker yet; None: nobody has tried to write one."""


class ListTransactions(msgspec.Struct, frozen=True):
    """None lets all through. `duration_ms`: only those that began longer ago, -1 for all; `pattern`: a regular
    expression that the whole id matches."""

    states: tuple[TransactionState, ...] | None = None
    producer_ids: tuple[int, ...] | None = None
    duration_ms: int = -1
    pattern: str | None = None


TransactionRequest = (
    InitProducerId
    | AddPartitions
    | VerifyPartitions
    | EndTransaction
    | MarkersWritten
    | TimedOut
    | ExpireTransactionalIds
    | DescribeTransaction
    | ListTransactions
)


class TransactionAnswer(msgspec.Struct, frozen=True):
    error_code: int = 0
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    needs_producer_id: bool = False


class VerifiedPartitions(msgspec.Struct, frozen=True):
    """One error code for each partition, in the order of the request."""

    error_codes: tuple[int, ...]


class ListedTransactions(msgspec.Struct, frozen=True):
    transactions: tuple[ListedTransaction, ...]


TransactionResponse = TransactionAnswer | VerifiedPartitions | DescribedTransaction | ListedTransactions


def fault_of(request: TransactionRequest, max_timeout_ms: int) -> int:
    """The error code of a request that no coordinator need be looked for; 0: there is none."""
    if isinstance(request, (ExpireTransactionalIds, ListTransactions)):
        return 0
    if not request.transactional_id:
        return INVALID_REQUEST
    if isinstance(request, InitProducerId) and not 0 < request.timeout_ms <= max_timeout_ms:
        return INVALID_TRANSACTION_TIMEOUT
    return 0
