"""Gives each partition of a transaction that was decided its marker, again and again until all have it.

Most markers are there in one go, and no task is needed; a transaction of which a partition cannot be written now waits
by itself, and holds up no other: until it is tried again it has no task and takes no place. On a single node the client
has its answer once every partition was tried; where other brokers have to be asked, before.
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
"""Transactions that wait for the answer of a partition at once; the others stand in line, each of them once."""
TRIES_OF_ONE_TURN = 20
FIRST_RETRY_S = 0.02
LAST_RETRY_S = 1.0
RETRIES_OF_ONE_SECOND = 2_000
"""Where more transactions are held up than so many, each is tried again less often: thousands that cannot end would
take the time of all others."""

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


class _Ending(msgspec.Struct, eq=False):
    """How far a transaction is."""

    transaction: EndingTransaction
    decided: TransactionMetadata | None = None
    """None: it was not tried yet."""
    pending: tuple[TopicPartition, ...] = ()
    """The partitions that have no marker yet."""
    is_marked: bool = False
    delay_s: float = FIRST_RETRY_S
    """Before the next try, at least."""


class Markers:
    """All transactions of this broker that are being ended."""

    def __init__(self, node: OwnNode, port: TransactionPort, has_partition: Callable[[TopicPartition], bool]) -> None:
        """`has_partition`: what the metadata names. A partition whose topic was deleted needs no marker."""
        self._node = node
        self._port = port
        self._has_partition = has_partition
        self._line: OrderedDict[str | _Ending, _Ending] = OrderedDict()
        """Transactions to be tried: by transactional id for the first time, later by themselves."""
        self._is_scheduled = False
        self._unmarked: dict[str, tuple[TopicPartition, ...]] = {}
        """By the transactional ids of those in flight."""
        self._first_tries: dict[str, asyncio.Event] = {}
        """Of those under way, by transactional id: set once a partition has to be tried again, or all is done."""
        self._tries = 0
        """Tries under way, at most MAX_TRIES."""
        self._held_up = 0
        """Transactions that are to be tried again."""
        self.unnoted = 0
        """Transactions in flight whose markers are all written."""
        self.retries = 0
        """How often a partition, or the last record, was tried again."""

    @property
    def in_flight(self) -> int:
        """Transactions that wait for a partition, or for their last record."""
        return self._tries + self._held_up

    def unmarked(self, transactional_id: str) -> tuple[TopicPartition, ...] | None:
        """The partitions of an ending transaction that have no marker yet; None: no marker of it was tried."""
        return self._unmarked.get(transactional_id)

    def add(self, transaction: EndingTransaction) -> None:
        """Ends `transaction`, beginning in the next turn of the loop at the latest."""
        self._line[transaction.transactional_id] = _Ending(transaction)
        self._schedule()

    async def wait_tried(self, transactional_id: str) -> None:
        """Waits until the transaction has ended, or has to wait for a partition. The end is begun now, unless very many
        are in front of it, and most transactions end in this first step."""
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
        """Whether nothing is left to do for this broker: it has ended the transaction, or another one must."""
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
        """Whether it is noted that all markers are written, or another broker must do it."""
        if not ending.is_marked:
            ending.is_marked = True
            self.unnoted += 1
        transaction = ending.transaction
        written = MarkersWritten(transaction.transactional_id, decided.producer_id, decided.producer_epoch)
        return not (transaction.is_here and await transaction.report(written))

    async def _write(
        self, transaction: EndingTransaction, decided: TransactionMetadata, pending: tuple[TopicPartition, ...]
    ) -> tuple[TopicPartition, ...]:
        """The partitions of `pending` that have no marker yet."""
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
