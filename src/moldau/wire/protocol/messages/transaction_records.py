"""The records of `__transaction_state`: one for each transactional id; the last one counts.

A key begins with two bytes that name its kind (0), a value with two bytes that are its version (`record_codec`).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.wire.protocol.schema import Int8, Int16, Int32, Int64, message, wire


@message(versions="0", api_key=0)
class TransactionLogKey(msgspec.Struct, frozen=True):
    transactional_id: str = ""


class TransactionPartitions(msgspec.Struct, frozen=True):
    topic: str = ""
    partition_ids: tuple[Int32, ...] = ()


@message(versions="0-1", flexible="1+")
class TransactionLogValue(msgspec.Struct, frozen=True):
    """The state of a transactional id. Times in ms. `transaction_status`: see core/transactions.

    v1 (`transaction.version` 1 and above): the producer ids before and after a change of producer id, and the
    transaction version of the client (KIP-890).
    """

    producer_id: Int64 = 0
    previous_producer_id: Annotated[Int64, wire("1+", tag=0, ignorable=True)] = -1
    next_producer_id: Annotated[Int64, wire("1+", tag=1, ignorable=True)] = -1
    producer_epoch: Int16 = 0
    next_producer_epoch: Annotated[Int16, wire("1+", tag=3, ignorable=True)] = -1
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: Annotated[tuple[TransactionPartitions, ...] | None, wire(nullable="0+")] = ()
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Annotated[Int16, wire("1+", tag=2, ignorable=True)] = 0
