"""A shard of the transaction coordinator without a broker: the machine on its host, over a list of encoded records."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.coordination.host import CoordinatorHost, LoadedRecord
from moldau.core.coordination.machine import NO_REQUEST_ID, Decision, Now, Timer
from moldau.core.metadata.image import MetadataDelta, MetadataImage
from moldau.core.transactions.machine import TransactionMachine
from moldau.core.transactions.records import decode_transaction_record, encode_transaction_record
from moldau.core.transactions.requests import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    MarkersWritten,
    TransactionAnswer,
    TransactionRequest,
    TransactionResponse,
    VerifiedPartitions,
    VerifyPartitions,
)
from moldau.core.transactions.state import (
    PREPARED,
    TransactionMetadata,
    TransactionRecord,
    TransactionsState,
    TransactionState,
)
from moldau.errors import MoldauError, kafka_error
from moldau.types import Offset, TopicPartition, whole

Host = CoordinatorHost[TransactionsState, TransactionRequest, TransactionResponse, TransactionRecord]
NAME = "tx"
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TIMEOUT_MS = 60_000


class Shard:
    """Requests in, responses out; time moves only by `wait`. New producer ids are 1000, 1001 and so on."""

    def __init__(self, transaction_version: int = 2, **settings: int) -> None:
        self.settings = msgspec.structs.replace(parse_broker_settings({}), **settings)
        self.image = MetadataImage()
        self.image.features["transaction.version"] = transaction_version
        self.now_ms = 1_000_000
        self.wall_ms = 5_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.is_append_failing = False
        self.next_producer_id = 1000
        self.host = self._new_host()
        self._begin()

    def _new_host(self) -> Host:
        return CoordinatorHost(TransactionMachine(self.settings), TopicPartition("__transaction_state", 0))

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.wall_ms)

    @property
    def state(self) -> TransactionsState:
        return self.host.state

    def _begin(self) -> None:
        self._take(NO_REQUEST_ID, self.host.machine.decide_loaded(self.state, self.image, self.now))

    def reload(self) -> None:
        """As after a crash: the log is replayed."""
        self.host = self._new_host()
        for offset, (key, value) in enumerate(self.log):
            record = decode_transaction_record(key, value)
            assert record is not None
            self.host.load([LoadedRecord(Offset(offset), record)])
        assert self.host.stopped is None
        self._begin()

    def finalize(self, transaction_version: int) -> None:
        """Sets the level of `transaction.version`."""
        self.image.features["transaction.version"] = transaction_version
        delta = MetadataDelta(features={"transaction.version": transaction_version})
        self._take(NO_REQUEST_ID, self.host.machine.decide_metadata(self.state, self.image, delta, self.now))

    def ask(self, request: TransactionRequest) -> Any:
        """The one response, which comes at once."""
        replies = self._submit(1, request)
        assert [request_id for request_id, _ in replies] == [1]
        return replies[0][1]

    def wait(self, delay_ms: int) -> None:
        """Both clocks advance, and timers fire."""
        end_ms = self.now_ms + delay_ms
        while (deadline_ms := self.host.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self._go_on(max(0, deadline_ms - self.now_ms))
            while (timer := self.host.due(self.now_ms)) is not None:
                assert timer.request is not None
                assert self._submit(NO_REQUEST_ID, timer.request, timer) == []
        self._go_on(end_ms - self.now_ms)

    def _go_on(self, delay_ms: int) -> None:
        self.now_ms += delay_ms
        self.wall_ms += delay_ms

    def _submit(
        self, request_id: int, request: TransactionRequest, timer: Timer[TransactionRequest] | None = None
    ) -> list[tuple[int, TransactionResponse | MoldauError]]:
        decision = self.host.machine.decide(self.state, request_id, request, self.now)
        return self._take(request_id, decision, timer)

    def _take(
        self, request_id: int, decision: Any, timer: Timer[TransactionRequest] | None = None
    ) -> list[tuple[int, TransactionResponse | MoldauError]]:
        if not isinstance(decision, Decision):
            decision = whole(decision)
        replies = self.host.take(request_id, decision, self.now, timer)
        if replies is not None:
            return list(replies)
        if self.is_append_failing:
            return list(self.host.append_failed(kafka_error("KAFKA_STORAGE_ERROR")))
        self.log.extend(encode_transaction_record(record) for record in decision.records)
        return [*whole(self.host.applying(len(self.log) - 1)), *self.host.committed(len(self.log))]

    # -- reads by tests

    def of(self, name: str = NAME) -> TransactionMetadata:
        return self.state.transactions[name]

    @property
    def known(self) -> tuple[str, int, int]:
        """State, producer id and epoch of the one transactional id."""
        return self.of().state.label, self.of().producer_id, self.of().producer_epoch

    def init(
        self, producer_id: int = -1, epoch: int = -1, name: str = NAME, timeout_ms: int = TIMEOUT_MS
    ) -> tuple[int, int, int]:
        """(error code, producer id, epoch)"""
        return self._change(InitProducerId(name, timeout_ms, producer_id, epoch))

    def end(
        self, producer_id: int, epoch: int, *, commit: bool = True, version: int = 2, name: str = NAME
    ) -> tuple[int, int, int]:
        """(error code, producer id, epoch)"""
        return self._change(EndTransaction(name, producer_id, epoch, commit, version))

    def _change(self, request: InitProducerId | EndTransaction) -> tuple[int, int, int]:
        answer = self.ask(request)
        if isinstance(answer, TransactionAnswer) and answer.needs_producer_id:
            self.next_producer_id += 1
            answer = self.ask(msgspec.structs.replace(request, new_producer_id=self.next_producer_id - 1))
        assert isinstance(answer, TransactionAnswer)
        assert not answer.needs_producer_id
        return answer.error_code, answer.producer_id, answer.producer_epoch

    def add(self, producer_id: int, epoch: int, *partitions: TopicPartition, version: int = 2, name: str = NAME) -> int:
        answer = self.ask(AddPartitions(name, producer_id, epoch, partitions or (T0,), version))
        assert isinstance(answer, TransactionAnswer)
        return answer.error_code

    def verify(self, producer_id: int, epoch: int, *partitions: TopicPartition, name: str = NAME) -> tuple[int, ...]:
        answer = self.ask(VerifyPartitions(name, producer_id, epoch, partitions or (T0,)))
        assert isinstance(answer, VerifiedPartitions)
        return answer.error_codes

    def give_markers(self, name: str = NAME) -> None:
        """Every partition of the decision gets its marker."""
        known = self.of(name)
        assert known.state in PREPARED
        assert self.ask(MarkersWritten(name, known.producer_id, known.producer_epoch)) == TransactionAnswer()

    def open_transaction(self, version: int = 2, name: str = NAME) -> tuple[int, int]:
        """A producer with one partition in its transaction: its id and epoch."""
        code, producer_id, epoch = self.init(name=name)
        assert (code, self.add(producer_id, epoch, version=version, name=name)) == (0, 0)
        return producer_id, epoch

    def put(self, **fields: Any) -> None:
        """Writes the transactional id as it is, with `fields` changed."""
        known = msgspec.structs.replace(self.of(), **fields)
        self._take(NO_REQUEST_ID, Decision((TransactionRecord(NAME, known),)))

    def at(self, state: TransactionState, epoch: int = 5, **fields: Any) -> None:
        """The one transactional id, with producer id 1000, in `state`."""
        if NAME not in self.state.transactions:
            assert self.init() == (0, 1000, 0)
        is_open = state in (TransactionState.ONGOING, *PREPARED)
        start_ms = -1 if state is TransactionState.EMPTY else self.wall_ms
        values = {"partitions": {T0: None} if is_open else {}, "start_ms": start_ms, "client_version": 2, **fields}
        self.put(state=state, producer_epoch=epoch, last_update_ms=self.wall_ms, **values)


@pytest.fixture
def shard() -> Shard:
    return Shard()
