"""Writes the markers of decided transactions, and retries until every partition has its marker.

Most transactions get all markers in the first try and need no task. A transaction with a partition that cannot be
written now waits without a task, and delays no other. On a single node the client gets its answer after the first try
of every partition; with several brokers, earlier.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

import msgspec

from moldau.core.transactions.records import partitions_by_topic
from moldau.core.transactions.requests import MarkersWritten
from moldau.core.transactions.state import TransactionMetadata, TransactionState
from moldau.errors import ERROR_CODES
from moldau.shell.broker.coordination.transaction_port import TransactionPort
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.network.first_step import Ended, Waiting, begun
from moldau.types import TopicPartition
from moldau.wire.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

MAX_TRIES = 1_000
"""The most transactions that wait for the answers of partitions at once. The others queue, each once."""
TRIES_OF_ONE_TURN = 20
FIRST_RETRY_S = 0.02
LAST_RETRY_S = 1.0
RETRIES_OF_ONE_SECOND = 2_000
"""With more delayed transactions than this, each is retried less often. Thousands of retries each second would take the
time of all others."""

_DONE = (
    0,
    # the partition has seen a later epoch of the producer, so this transaction has ended there
    ERROR_CODES["INVALID_PRODUCER_EPOCH"],
)


class EndingTransaction(Protocol):
    """One decided transaction, as its coordinator sees it."""

    transactional_id: str

    @property
    def is_here(self) -> bool:
        """Whether this broker must still end the transaction."""

    def metadata(self) -> TransactionMetadata | None:
        """The decision; None once the transaction has ended."""

    @property
    def coordinator_epoch(self) -> int:
        """The leader epoch of the coordinator's partition of `__transaction_state`. Markers hold it."""
        ...

    async def report(self, request: MarkersWritten) -> int:
        """Reports that every partition has its marker. Returns an error code."""


class _Ending(msgspec.Struct, eq=False):
    """The progress of one ending transaction."""

    transaction: EndingTransaction
    decided: TransactionMetadata | None = None
    """None: not tried yet."""
    pending: tuple[TopicPartition, ...] = ()
    """The partitions that have no marker yet."""
    is_marked: bool = False
    delay_s: float = FIRST_RETRY_S
    """The least delay before the next try."""


class Markers:
    """All transactions that this broker is ending."""

    def __init__(self, node: OwnNode, port: TransactionPort, has_partition: Callable[[TopicPartition], bool]) -> None:
        """`has_partition`: whether the metadata has the partition. Partitions of deleted topics need no marker."""
        self._node = node
        self._port = port
        self._has_partition = has_partition
        self._line: OrderedDict[str | _Ending, _Ending] = OrderedDict()
        """The queue of tries. Keys: the transactional id for the first try, later the `_Ending` itself."""
        self._is_scheduled = False
        self._unmarked: dict[str, tuple[TopicPartition, ...]] = {}
        """By transactional id: the partitions without a marker, for transactions in flight."""
        self._first_tries: dict[str, asyncio.Event] = {}
        """By transactional id, for running first tries. Set once a partition must be retried, or all is done."""
        self._tries = 0
        """Running tries, at most MAX_TRIES."""
        self._held_up = 0
        """Transactions that wait for a retry."""
        self.unnoted = 0
        """Transactions in flight with all markers written, but not the last record."""
        self.retries = 0
        """Retries of a partition or of the last record."""

    @property
    def in_flight(self) -> int:
        """Transactions that wait for a partition, or for their last record."""
        return self._tries + self._held_up

    def unmarked(self, transactional_id: str) -> tuple[TopicPartition, ...] | None:
        """The partitions of an ending transaction that have no marker yet. None: no marker was tried yet."""
        return self._unmarked.get(transactional_id)

    def add(self, transaction: EndingTransaction) -> None:
        """Ends `transaction`. Starts in the next turn of the loop at the latest."""
        self._line[transaction.transactional_id] = _Ending(transaction)
        self._schedule()

    async def wait_tried(self, transactional_id: str) -> None:
        """Waits until the transaction has ended or must wait for a partition. Starts the first try now, unless
        MAX_TRIES are running. Most transactions end in it."""
        if transactional_id in self._line and self._tries < MAX_TRIES:
            self._try(self._line.pop(transactional_id))
        tried = self._first_tries.get(transactional_id)
        if tried is not None:
            await tried.wait()

    def _schedule(self) -> None:
        if not self._is_scheduled and self._line and self._tries < MAX_TRIES:
            self._is_scheduled = True
            self._node.loop.call_soon(self._try_those_in_line)

    def _try_those_in_line(self) -> None:
        self._is_scheduled = False
        try:
            for _ in range(min(TRIES_OF_ONE_TURN, len(self._line), MAX_TRIES - self._tries)):
                self._try(self._line.popitem(last=False)[1])
        finally:
            self._schedule()

    def _try(self, ending: _Ending) -> None:
        is_first = ending.decided is None
        if not is_first:
            self._held_up -= 1
        try:
            step = begun(self._end(ending))
        except Exception:
            self._tried(ending, is_over=True)
            raise
        if isinstance(step, Ended):
            self._tried(ending, is_over=step.result)
            return
        self._tries += 1
        tried = None
        if is_first:
            tried = self._first_tries[ending.transaction.transactional_id] = asyncio.Event()
        self._node.spawn(self._finish(step, ending, tried))

    async def _finish(self, step: Waiting[bool], ending: _Ending, tried: asyncio.Event | None) -> None:
        transactional_id = ending.transaction.transactional_id
        is_over = True
        try:
            is_over = await step
        finally:
            if tried is not None:
                tried.set()
                if self._first_tries.get(transactional_id) is tried:
                    del self._first_tries[transactional_id]
            self._tries -= 1
            self._tried(ending, is_over=is_over)
            self._schedule()

    def _tried(self, ending: _Ending, *, is_over: bool) -> None:
        if is_over:
            self._unmarked.pop(ending.transaction.transactional_id, None)
            self.unnoted -= ending.is_marked
            return
        self.retries += 1
        self._held_up += 1
        delay_s = max(ending.delay_s, self._held_up / RETRIES_OF_ONE_SECOND)
        self._node.loop.call_later(delay_s, self._try_again, ending)
        ending.delay_s = min(2 * ending.delay_s, LAST_RETRY_S)

    def _try_again(self, ending: _Ending) -> None:
        self._line[ending] = ending
        self._schedule()

    async def _end(self, ending: _Ending) -> bool:
        """Tries to end the transaction. True: this broker has ended it, or another one must."""
        transaction = ending.transaction
        decided = ending.decided or transaction.metadata()
        if decided is None or not transaction.is_here:
            return True
        if ending.decided is None:
            ending.decided = decided
            ending.pending = tuple(decided.partitions)
        if ending.pending:
            ending.pending = await self._write(transaction, decided, ending.pending)
            self._unmarked[transaction.transactional_id] = ending.pending
        return not ending.pending and await self._note(ending, decided)

    async def _note(self, ending: _Ending, decided: TransactionMetadata) -> bool:
        """Writes the last record, that all markers are written. True: it is written, or another broker must write
        it."""
        if not ending.is_marked:
            ending.is_marked = True
            self.unnoted += 1
        transaction = ending.transaction
        written = MarkersWritten(transaction.transactional_id, decided.producer_id, decided.producer_epoch)
        return not (transaction.is_here and await transaction.report(written))

    async def _write(
        self, transaction: EndingTransaction, decided: TransactionMetadata, pending: tuple[TopicPartition, ...]
    ) -> tuple[TopicPartition, ...]:
        """Writes markers to `pending`, and returns the partitions that still have none."""
        topics = partitions_by_topic(pending)
        marker = WritableTxnMarker(
            producer_id=decided.producer_id,
            producer_epoch=decided.producer_epoch,
            transaction_result=decided.state is TransactionState.PREPARE_COMMIT,
            topics=tuple(WritableTxnMarkerTopic(name, tuple(indexes)) for name, indexes in topics.items()),
            coordinator_epoch=transaction.coordinator_epoch,
            transaction_version=decided.client_version,
        )
        (result,) = (await self._port.write_markers(WriteTxnMarkersRequest((marker,)))).markers
        return tuple(
            TopicPartition(topic.name, row.partition_index)
            for topic in result.topics
            for row in topic.partitions
            if row.error_code not in _DONE and self._has_partition(TopicPartition(topic.name, row.partition_index))
        )
