"""Verifies the partitions of transactional batches, or adds them to the transaction.

In transactions v1, up to Produce v11, the client adds partitions and the coordinator verifies that (KIP-890). In
transactions v2, from v12 on, a partition joins with the first write. Once the transaction is open on a partition, the
coordinator is not asked again.
"""

from __future__ import annotations

from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING

import msgspec

from moldau.core.replication.partition import Partition
from moldau.core.replication.produce_plan import Rejected
from moldau.core.transactions.requests import AddPartitions, VerifyPartitions
from moldau.core.transactions.state import TRANSACTIONS_V2
from moldau.errors import ERROR_CODES, KafkaError, kafka_error
from moldau.shell.broker.handlers.produce_targets import Entries, writable_partition
from moldau.shell.network.context import RequestContext
from moldau.types import Buffer
from moldau.wire.records.batch import ATTRIBUTES_POSITION, HEADER_SIZE, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

JOINS_FROM = 12
ABORTABLE_FROM = 11
CONCURRENT_TRANSACTIONS = ERROR_CODES["CONCURRENT_TRANSACTIONS"]
TRANSACTION_ABORTABLE = ERROR_CODES["TRANSACTION_ABORTABLE"]
PRODUCER_FENCED = ERROR_CODES["PRODUCER_FENCED"]
INVALID_PRODUCER_EPOCH = ERROR_CODES["INVALID_PRODUCER_EPOCH"]
_NOT_ADDED = (ERROR_CODES["INVALID_TXN_STATE"], ERROR_CODES["CLUSTER_AUTHORIZATION_FAILED"])
_RETRIED = tuple(
    ERROR_CODES[name]
    for name in (
        "NETWORK_EXCEPTION",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
    )
)

Producer = tuple[int, int]
"""Producer id and epoch."""

_PRODUCER_POSITION = 43
_unpack_producer = Struct(">qhi").unpack_from


class _Asked(msgspec.Struct, frozen=True, eq=False):
    """One partition that the coordinator is asked about."""

    key: tuple[bytes, int]
    partition: Partition
    base_sequence: int


class Unverified(msgspec.Struct, frozen=True):
    """The batches of a request whose partitions may not be in the transaction. Keeps no view of the frame."""

    producer: Producer = (-1, -1)
    asked: list[_Asked] = []
    rejected: Rejected = {}


def producer_of(records: Buffer | None) -> tuple[int, int, int] | None:
    """Producer id, epoch and base sequence of a transactional batch; None for any other batch."""
    if records is None or len(records) < HEADER_SIZE or not records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_FLAG:
        return None
    producer: tuple[int, int, int] = _unpack_producer(records, _PRODUCER_POSITION)
    return producer if producer[0] >= 0 else None


def find_unverified(broker: Broker, context: RequestContext, transactional_id: str, entries: Entries) -> Unverified:
    """Finds the batches to verify. Leaves out batches that the append will reject anyway."""
    joins = context.api_version >= JOINS_FROM
    if not joins and not broker.settings.transaction_partition_verification_enable:
        return Unverified()
    producer: Producer | None = None
    asked: list[_Asked] = []
    rejected: Rejected = {}
    for topic, index, records in entries:
        found = producer_of(records)
        if found is None:
            continue
        if producer is not None and producer != found[:2]:
            error = kafka_error("INVALID_PRODUCER_ID_MAPPING", "batches of more than one producer in a transaction")
            return Unverified(rejected={(topic, index): error for topic, index, _ in entries})
        producer = found[:2]
        try:
            partition = writable_partition(broker, context, topic, index)
        except KafkaError:
            continue
        if partition.log.producer_state.is_fenced(*producer):
            rejected[topic, index] = kafka_error(INVALID_PRODUCER_EPOCH)
            continue
        verified_id = partition.log.producer_state.verified_id(*producer)
        if verified_id is None:
            asked.append(_Asked((topic, index), partition, found[2]))
        elif verified_id != transactional_id:
            rejected[topic, index] = kafka_error("INVALID_TXN_STATE", "the transaction is of another transactional id")
    if producer is None or not asked:
        return Unverified(rejected=rejected)
    return Unverified(producer, asked, rejected)


async def verify(broker: Broker, context: RequestContext, transactional_id: str, unverified: Unverified) -> Rejected:
    """Asks the coordinator about all partitions at once, and returns the errors. Ends in its first step if the
    coordinator does."""
    rejected = dict(unverified.rejected)
    if not unverified.asked:
        return rejected
    joins = context.api_version >= JOINS_FROM
    end_s = broker.own_node.loop.time() + broker.settings.add_partitions_to_txn_retry_backoff_max_ms / 1_000
    while True:
        codes = await _ask(broker, context, transactional_id, unverified, joins=joins)
        now_s = broker.own_node.loop.time()
        if not joins or CONCURRENT_TRANSACTIONS not in codes.values() or now_s >= end_s:
            rejected.update((each.key, refusal(code, context.api_version)) for each, code in codes.items() if code)
            return rejected
        # the previous transaction is ending, which takes milliseconds; sending the batches again would cost more
        with suppress(KafkaError):
            retry_s = now_s + broker.settings.add_partitions_to_txn_retry_backoff_ms / 1_000
            await context.wait(broker.own_node.loop.create_future(), retry_s)


async def _ask(
    broker: Broker, context: RequestContext, transactional_id: str, unverified: Unverified, *, joins: bool
) -> dict[_Asked, int]:
    """The coordinator's answer for each partition. The logs of partitions with 0 accept the batches from now on."""
    producer, asked = unverified.producer, unverified.asked
    now_ms = broker.own_node.clock.now_ms()
    verifications = [
        each.partition.log.producer_state.begin_verification(*producer, now_ms, joins=joins) for each in asked
    ]
    names = tuple(dict.fromkeys(each.partition.topic_partition for each in asked))
    asking = transactional_id, *producer, names
    request = AddPartitions(*asking, TRANSACTIONS_V2) if joins else VerifyPartitions(*asking)
    try:
        codes = await context.wait(broker.coordination.transactions.ask_coordinator(request))
    except BaseException:
        # the client has disconnected, and will send its batches again
        for each, verification in zip(asked, verifications, strict=True):
            verification.expect(each.base_sequence)
        raise
    found: dict[_Asked, int] = {}
    for each, verification in zip(asked, verifications, strict=True):
        code = found[each] = codes[each.partition.topic_partition]
        if not code or kafka_error(code).is_retriable:
            verification.expect(each.base_sequence)
        if not code:
            each.partition.log.producer_state.verified(*producer, verification, transactional_id)
    return found


def refusal(code: int, version: int) -> KafkaError:
    """The error that clients of this version understand."""
    if code in _RETRIED or (code == CONCURRENT_TRANSACTIONS and version < JOINS_FROM):
        # an old client retries after this error, but not after the coordinator's own
        said = kafka_error(code).name
        return kafka_error(
            "NOT_ENOUGH_REPLICAS", f"it is not known whether the partition is in the transaction: {said}"
        )
    if code in _NOT_ADDED or (code == TRANSACTION_ABORTABLE and version < ABORTABLE_FROM):
        return kafka_error("INVALID_TXN_STATE", "Partition was not added to the transaction")
    return kafka_error(INVALID_PRODUCER_EPOCH if code == PRODUCER_FENCED else code)
