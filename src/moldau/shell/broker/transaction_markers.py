"""Gives each partition of a transaction that was decided its marker, again and again until all have it.

Most markers are there in one go, and no task is needed; a transaction of which a partition cannot be written now waits
by itself, and holds up no other. On a single node the client has its answer once every partition was tried; where other
brokers have to be asked, before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from moldau.core.transactions.records import partitions_by_topic
from moldau.core.transactions.requests import MarkersWritten
from moldau.core.transactions.state import TransactionMetadata, TransactionState
from moldau.errors import ERROR_CODES
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.broker.transaction_door import TransactionDoor
from moldau.shell.network.first_step import Ended, Waiting, begun
from moldau.types import TopicPartition
from moldau.wire.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

MAX_IN_FLIGHT = 1_000
"""Transactions that wait for a partition at once; the others stand in line, each of them once."""
MARKERS_OF_ONE_TURN = 20
FIRST_RETRY_S = 0.02
LAST_RETRY_S = 1.0

_DONE = (
    0,
    # the partition has seen a later epoch of the producer: this transaction is over there
    ERROR_CODES["INVALID_PRODUCER_EPOCH"],
)


class EndingTransaction(Protocol):
    """One transaction that was decided, as its coordinator has it."""

    transactional_id: str

    @property
    def is_here(self) -> bool:
        """Whether it is still this broker that must end the transaction."""

    def metadata(self) -> TransactionMetadata | None:
        """What was decided; None once it has ended."""

    @property
    def coordinator_epoch(self) -> int:
        """The leader epoch of the coordinator's partition of `__transaction_state`; markers name it."""
        ...

    async def report(self, request: MarkersWritten) -> int:
        """Every partition has its marker. Gives an error code."""


class Markers:
    """All transactions of this broker that are being ended."""

    def __init__(self, node: OwnNode, door: TransactionDoor, has_partition: Callable[[TopicPartition], bool]) -> None:
        """`has_partition`: what the metadata names. A partition whose topic was deleted needs no marker."""
        self._node = node
        self._door = door
        self._has_partition = has_partition
        self._waiting: dict[str, EndingTransaction] = {}
        """By transactional id, in order."""
        self._is_scheduled = False
        self._unmarked: dict[str, tuple[TopicPartition, ...]] = {}
        """By the transactional ids of those in flight."""
        self._tried: dict[str, asyncio.Event] = {}
        """Of those in flight: set once a partition has to be tried again, or all is done."""
        self.in_flight = 0
        """Transactions that wait for a partition, or for their last record."""
        self.unnoted = 0
        """Of these, the ones whose markers are all written."""
        self.retries = 0
        """How often a partition, or the last record, was tried again."""

    @property
    def waiting_count(self) -> int:
        """Transactions whose markers nobody has begun to write."""
        return len(self._waiting)

    def unmarked(self, transactional_id: str) -> tuple[TopicPartition, ...] | None:
        """The partitions of an ending transaction that have no marker yet; None: no marker of it was tried."""
        return self._unmarked.get(transactional_id)

    def add(self, transaction: EndingTransaction) -> None:
        """Ends `transaction`, beginning in the next turn of the loop at the latest."""
        self._waiting[transaction.transactional_id] = transaction
        self._schedule()

    async def wait_tried(self, transactional_id: str) -> None:
        """Until the transaction has ended, or has to wait for a partition. It is begun now, unless very many are in
        front of it, and most end in this first step."""
        if transactional_id in self._waiting and self.in_flight < MAX_IN_FLIGHT:
            self._begin(self._waiting.pop(transactional_id))
        tried = self._tried.get(transactional_id)
        if tried is not None:
            await tried.wait()

    def _schedule(self) -> None:
        if not self._is_scheduled and self._waiting and self.in_flight < MAX_IN_FLIGHT:
            self._is_scheduled = True
            self._node.loop.call_soon(self._begin_those_in_line)

    def _begin_those_in_line(self) -> None:
        self._is_scheduled = False
        for _ in range(min(MARKERS_OF_ONE_TURN, len(self._waiting), MAX_IN_FLIGHT - self.in_flight)):
            self._begin(self._waiting.pop(next(iter(self._waiting))))
        self._schedule()

    def _begin(self, transaction: EndingTransaction) -> None:
        tried = asyncio.Event()
        step = begun(self._end(transaction, tried))
        if not isinstance(step, Ended):
            self.in_flight += 1
            self._tried[transaction.transactional_id] = tried
            self._node.spawn(self._finish(step, transaction.transactional_id, tried))

    async def _finish(self, step: Waiting[None], transactional_id: str, tried: asyncio.Event) -> None:
        try:
            await step
        finally:
            tried.set()
            if self._tried.get(transactional_id) is tried:
                del self._tried[transactional_id]
            self.in_flight -= 1
            self._schedule()

    async def _end(self, transaction: EndingTransaction, tried: asyncio.Event) -> None:
        decided = transaction.metadata()
        if decided is None:
            return
        try:
            await self._mark(transaction, decided, tried)
            await self._note(transaction, decided, tried)
        finally:
            self._unmarked.pop(transaction.transactional_id, None)

    async def _mark(self, transaction: EndingTransaction, decided: TransactionMetadata, tried: asyncio.Event) -> None:
        pending = tuple(decided.partitions)
        delay_s = FIRST_RETRY_S
        while pending and transaction.is_here:
            pending = await self._write(transaction, decided, pending)
            self._unmarked[transaction.transactional_id] = pending
            if pending:
                delay_s = await self._before_retry(delay_s, tried)

    async def _note(self, transaction: EndingTransaction, decided: TransactionMetadata, tried: asyncio.Event) -> None:
        written = MarkersWritten(transaction.transactional_id, decided.producer_id, decided.producer_epoch)
        delay_s = FIRST_RETRY_S
        self.unnoted += 1
        try:
            while transaction.is_here and await transaction.report(written):
                delay_s = await self._before_retry(delay_s, tried)
        finally:
            self.unnoted -= 1

    async def _before_retry(self, delay_s: float, tried: asyncio.Event) -> float:
        """Gives how long to wait the next time."""
        tried.set()
        self.retries += 1
        await asyncio.sleep(delay_s)
        return min(2 * delay_s, LAST_RETRY_S)

    async def _write(
        self, transaction: EndingTransaction, decided: TransactionMetadata, pending: tuple[TopicPartition, ...]
    ) -> tuple[TopicPartition, ...]:
        """Those of `pending` that have no marker yet."""
        topics = partitions_by_topic(pending)
        marker = WritableTxnMarker(
            producer_id=decided.producer_id,
            producer_epoch=decided.producer_epoch,
            transaction_result=decided.state is TransactionState.PREPARE_COMMIT,
            topics=tuple(WritableTxnMarkerTopic(name, tuple(indexes)) for name, indexes in topics.items()),
            coordinator_epoch=transaction.coordinator_epoch,
            transaction_version=decided.client_version,
        )
        (result,) = (await self._door.write_markers(WriteTxnMarkersRequest((marker,)))).markers
        return tuple(
            TopicPartition(topic.name, row.partition_index)
            for topic in result.topics
            for row in topic.partitions
            if row.error_code not in _DONE and self._has_partition(TopicPartition(topic.name, row.partition_index))
        )
