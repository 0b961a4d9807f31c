"""The random legal requests of transactions: both protocols, on a few transactional ids.

A broker's producer state (producer id, epoch, next sequence of each partition) is a binding, as in steps.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages import coordinators, produce, producer_ids, transactions
from moldau.wire.records.builder import build_batch
from tests.differential.step import Bindings, Step

TRANSACTION = 1
TIMEOUTS_MS = (60_000, 60_000, 60_000, 60_000, 900_000, 0, 900_001)
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "NoSuchState")
NOBODY = (-1, -1)
OF_TRANSACTIONS = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.PRODUCE,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
    ApiKey.END_TXN,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FETCH,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.WRITE_TXN_MARKERS,
)
"""The APIs of half of the sequences."""


class TransactionSteps:
    """The transactional half of a sequence; the other half has its topics and groups."""

    random: random.Random
    prefix: str
    topic: Callable[[], str]
    partition: Callable[[], int]
    group: Callable[[], str]
    offset: Callable[[], int]

    def transactional_id(self) -> str:
        return self.random.choice((f"{self.prefix}-x0", f"{self.prefix}-x0", f"{self.prefix}-x1"))

    def _step(self, key: ApiKey, version: int, make: Callable[[Bindings], Any], learn: Any = None) -> Step:
        return Step(key, version, make, learn, transactional_ids=(f"{self.prefix}-x0", f"{self.prefix}-x1"))

    def producer_begun(self, name: str) -> Step:
        """Without it all requests of this transactional id would be rejected."""

        def learn(bindings: Bindings, answer: Any) -> None:
            bindings.values[f"producer:{name}"] = (answer.producer_id, answer.producer_epoch)

        request = producer_ids.InitProducerIdRequest(name, 60_000)
        return Step(ApiKey.INIT_PRODUCER_ID, 4, lambda _: request, learn)

    def transactional_init(self, key: ApiKey, version: int) -> Step:
        name, timeout_ms = self.transactional_id(), self.random.choice(TIMEOUTS_MS)
        is_known, is_stale = version >= 3 and self.random.random() < 0.4, self.random.random() < 0.2

        def make(bindings: Bindings) -> Any:
            producer_id, epoch = bindings.get(f"producer:{name}", NOBODY) if is_known else NOBODY
            if is_stale and epoch > 0:
                epoch -= 1
            return producer_ids.InitProducerIdRequest(name, timeout_ms, producer_id, epoch)

        def learn(bindings: Bindings, answer: Any) -> None:
            if answer.error_code == 0:
                bindings.values[f"producer:{name}"] = (answer.producer_id, answer.producer_epoch)

        return self._step(key, version, make, learn)

    def transactional_produce(self, key: ApiKey, version: int) -> Step:
        name, topic, index, count = self.transactional_id(), self.topic(), self.partition(), self.random.randint(1, 3)
        is_stale = self.random.random() < 0.1

        def sequence_of(bindings: Bindings) -> tuple[str, int, int]:
            producer_id, epoch = bindings.get(f"producer:{name}", NOBODY)
            if is_stale and epoch > 0:
                epoch -= 1
            return f"sequence:{name}:{topic}:{index}:{producer_id}:{epoch}", producer_id, epoch

        def make(bindings: Bindings) -> Any:
            place, producer_id, epoch = sequence_of(bindings)
            batch = build_batch(
                [(b"k%d" % n, b"v", bindings.base_ms + n, ()) for n in range(count)],
                producer_id=max(producer_id, 0),
                producer_epoch=max(epoch, 0),
                base_sequence=bindings.get(place, 0),
                is_transactional=True,
            )
            data = produce.PartitionProduceData(index=index, records=batch)
            row = produce.TopicProduceData(name=topic, topic_id=bindings.topic_id(topic), partition_data=(data,))
            return produce.ProduceRequest(name, acks=-1, timeout_ms=30_000, topic_data=(row,))

        def learn(bindings: Bindings, answer: Any) -> None:
            if answer.responses and answer.responses[0].partition_responses[0].error_code == 0:
                place, *_ = sequence_of(bindings)
                bindings.values[place] = bindings.get(place, 0) + count

        return self._step(key, version, make, learn)

    def transactional_find(self, key: ApiKey, version: int) -> Step:
        name = self.transactional_id()
        request = coordinators.FindCoordinatorRequest(key=name, key_type=TRANSACTION, coordinator_keys=(name,))
        return Step(key, version, lambda _: request)

    def _add_partitions_to_txn(self, key: ApiKey, version: int) -> Step:
        name, topic, index = self.transactional_id(), self.topic(), self.partition()
        is_verified = self.random.random() < 0.5

        def make(bindings: Bindings) -> Any:
            producer_id, epoch = bindings.get(f"producer:{name}", NOBODY)
            rows = (transactions.AddPartitionsToTxnTopic(topic, (index,)),)
            one = transactions.AddPartitionsToTxnTransaction(name, producer_id, epoch, is_verified, rows)
            return transactions.AddPartitionsToTxnRequest((one,), name, producer_id, epoch, rows)

        return self._step(key, version, make)

    def _add_offsets_to_txn(self, key: ApiKey, version: int) -> Step:
        name, group = self.transactional_id(), self.group()

        def make(bindings: Bindings) -> Any:
            return transactions.AddOffsetsToTxnRequest(name, *bindings.get(f"producer:{name}", NOBODY), group)

        return self._step(key, version, make)

    def _txn_offset_commit(self, key: ApiKey, version: int) -> Step:
        name, group, topic, index, offset = (
            self.transactional_id(),
            self.group(),
            self.topic(),
            self.partition(),
            self.offset(),
        )

        def make(bindings: Bindings) -> Any:
            row = transactions.TxnOffsetCommitRequestPartition(index, offset, committed_metadata="note")
            topics = (transactions.TxnOffsetCommitRequestTopic(topic, bindings.topic_id(topic), (row,)),)
            producer = bindings.get(f"producer:{name}", NOBODY)
            return transactions.TxnOffsetCommitRequest(name, group, *producer, topics=topics)

        return self._step(key, version, make)

    def _end_txn(self, key: ApiKey, version: int) -> Step:
        name, is_commit, is_stale = self.transactional_id(), self.random.random() < 0.6, self.random.random() < 0.15

        def make(bindings: Bindings) -> Any:
            producer_id, epoch = bindings.get(f"producer:{name}", NOBODY)
            if is_stale and epoch > 0:
                epoch -= 1
            return transactions.EndTxnRequest(name, producer_id, epoch, is_commit)

        def learn(bindings: Bindings, answer: Any) -> None:
            if version >= 5 and answer.error_code == 0:
                bindings.values[f"producer:{name}"] = (answer.producer_id, answer.producer_epoch)

        return self._step(key, version, make, learn)

    def _write_txn_markers(self, key: ApiKey, version: int) -> Step:
        name, topic, index = self.transactional_id(), self.topic(), self.partition()
        is_commit, bump = self.random.random() < 0.3, self.random.choice((0, 0, 1))
        level = self.random.choice((0, 2))

        def make(bindings: Bindings) -> Any:
            producer_id, epoch = bindings.get(f"producer:{name}", NOBODY)
            rows = (transactions.WritableTxnMarkerTopic(topic, (index,)),)
            marker = transactions.WritableTxnMarker(
                max(producer_id, 0), max(epoch, 0) + bump, is_commit, rows, 0, level
            )
            return transactions.WriteTxnMarkersRequest((marker,))

        return self._step(key, version, make)

    def _describe_transactions(self, key: ApiKey, version: int) -> Step:
        names = tuple(f"{self.prefix}-{name}" for name in self.random.sample(("x0", "x1", "missing"), 2))
        return Step(key, version, lambda _: transactions.DescribeTransactionsRequest(names))

    def _list_transactions(self, key: ApiKey, version: int) -> Step:
        states = tuple(self.random.sample(STATES, self.random.choice((0, 0, 1, 3))))
        is_by_id, duration_ms = self.random.random() < 0.2, self.random.choice((-1, -1, 3_600_000))
        pattern = self.random.choice((None, None, f"{self.prefix}-x.*", f"{self.prefix}-x", ".*-x1", ""))

        def make(bindings: Bindings) -> Any:
            producer_id, _ = bindings.get(f"producer:{self.prefix}-x0", NOBODY)
            ids = (producer_id,) if is_by_id else ()
            return transactions.ListTransactionsRequest(states, ids, duration_ms, pattern)

        return Step(key, version, make)
