"""The requests and responses of a transaction machine.

    InitProducerId        -> TransactionAnswer   with a producer id and epoch
    AddPartitions         -> TransactionAnswer
    VerifyPartitions      -> VerifiedPartitions
    EndTransaction        -> TransactionAnswer   v2: with the producer id and epoch of the next transaction
    MarkersWritten        -> TransactionAnswer   of the broker itself, once every partition has its marker
    DescribeTransaction   -> DescribedTransaction
    ListTransactions      -> ListedTransactions  (this shard's part of the list)

Timers fire as `TimedOut` and `ExpireTransactionalIds` and need no reply.

Callers check with `fault_of` first, which needs no state.

Producer ids come from the controller, and a decision cannot wait for it. If a new id is needed and the request has
none, the response has `needs_producer_id` and nothing has changed. Repeat the request with an id.
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
    """`producer_id` and `producer_epoch`: those of the client, -1 at its beginning (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    new_producer_id: int = NO_PRODUCER_ID


class AddPartitions(msgspec.Struct, frozen=True):
    """`client_version`: 2 if the client uses transactions v2, else 0."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    client_version: int = 0


class VerifyPartitions(msgspec.Struct, frozen=True):
    """Checks that these partitions are in the open transaction, and adds none (KIP-890)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


AddOrVerify = AddPartitions | VerifyPartitions


class EndTransaction(msgspec.Struct, frozen=True):
    """`client_version` 2: EndTxn v5 and later."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    client_version: int = 0
    new_producer_id: int = NO_PRODUCER_ID


class MarkersWritten(msgspec.Struct, frozen=True):
    """Every partition has its marker for the transaction with this producer id and epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class TimedOut(msgspec.Struct, frozen=True):
    """The timeout of the transaction that began at `start_ms`."""

    transactional_id: str
    start_ms: int


class ExpireTransactionalIds(msgspec.Struct, frozen=True):
    """Check for unused transactional ids."""


class DescribeTransaction(msgspec.Struct, frozen=True):
    transactional_id: str
    unmarked: tuple[TopicPartition, ...] | None = None
    """For an ending transaction: the partitions without a marker yet; None: no marker was tried yet."""


class ListTransactions(msgspec.Struct, frozen=True):
    """None: no filter. `duration_ms`: only those that began longer ago; -1: all. `pattern`: a regular expression for
    the whole id."""

    states: tuple[TransactionState, ...] | None = None
    producer_ids: tuple[int, ...] | None = None
    duration_ms: int = -1
    pattern: str | None = None


TransactionRequest = (
    InitProducerId
    | AddOrVerify
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
    """An error code for each partition, in the order of the request."""

    error_codes: tuple[int, ...]


class ListedTransactions(msgspec.Struct, frozen=True):
    transactions: tuple[ListedTransaction, ...]


TransactionResponse = TransactionAnswer | VerifiedPartitions | DescribedTransaction | ListedTransactions


def fault_of(request: TransactionRequest, max_timeout_ms: int) -> int:
    """The error code of a request that needs no coordinator to be rejected; 0: no fault."""
    if isinstance(request, (ExpireTransactionalIds, ListTransactions)):
        return 0
    if not request.transactional_id:
        return INVALID_REQUEST
    if isinstance(request, InitProducerId) and not 0 < request.timeout_ms <= max_timeout_ms:
        return INVALID_TRANSACTION_TIMEOUT
    return 0
