"""One transactional producer on a RawConnection, and its group's responses."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from typing import Any

from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.wire import RawConnection
from tests.support.wire_produce import batch

LATER = (14, 15, 16)
STILL_ENDING = (51,)
TRIES = 2_000


def asked_until(ask: Callable[[], int], other_than: tuple[int, ...]) -> int:
    """The first response with an error code other than these."""
    return next((code for _ in range(TRIES) if (code := ask()) not in other_than), other_than[0])


class Producer:
    """One transactional id, on a broker that may still be ending its last transaction (51). `above` and `other` of a
    request: the differences from its own epoch and producer id."""

    def __init__(self, raw: RawConnection, *, timeout_ms: int = 60_000) -> None:
        self.raw = raw
        self.name = f"tx-{uuid.uuid4().hex[:8]}"
        self.group = f"group-{self.name}"
        for key, kind in ((self.name, 1), (self.group, 0)):
            find = FindCoordinatorRequest(key=key, key_type=kind)
            assert asked_until(lambda find=find: raw.ask(find, 3).error_code, LATER) == 0
        assert asked_until(lambda: self.init(timeout_ms=timeout_ms), LATER) == 0

    def init(self, version: int = 4, *own: int, timeout_ms: int = 60_000) -> int:
        request = InitProducerIdRequest(self.name, timeout_ms, *own)
        answer = self.raw.ask(request, version)
        if answer.error_code == 0:
            self.ids = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)

    def _ids(self, above: int, other: int) -> tuple[int, int]:
        return self.ids[0] + other, self.ids[1] + above

    def add(self, *topics: tuple[str, int], above: int = 0, other: int = 0) -> list[int]:
        rows = tuple(AddPartitionsToTxnTopic(topic, (index,)) for topic, index in topics)
        request = AddPartitionsToTxnRequest((), self.name, *self._ids(above, other), rows)
        for _ in range(TRIES):
            found = self.raw.ask(request, 3).results_by_topic_v3_and_below
            codes = {topic.name: row.partition_error_code for topic in found for row in topic.results_by_partition}
            if 51 not in codes.values():
                break
        return [codes[topic] for topic, _ in topics]

    def end(self, version: int, *, commit: bool = True, above: int = 0, other: int = 0, name: str | None = None) -> int:
        request = EndTxnRequest(self.name if name is None else name, *self._ids(above, other), commit)
        for _ in range(TRIES):
            answer = self.raw.ask(request, version)
            if answer.error_code != 51:
                break
        if answer.error_code == 0 and version >= 5:
            self.ids = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)

    def produce(self, version: int, topic: str, sequence: int = 0) -> int:
        """One record to partition 0."""
        producer_id, epoch = self.ids
        records = batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True)
        rows = (PartitionProduceData(index=0, records=bytes(records)),)
        request = ProduceRequest(self.name, -1, 10_000, (TopicProduceData(name=topic, partition_data=rows),))

        def ask() -> int:
            return int(self.raw.ask(request, version).responses[0].partition_responses[0].error_code)

        # 6: a new partition has no leader yet
        return asked_until(ask, (*STILL_ENDING, 6))

    def add_group(self) -> int:
        """Adds the group's offsets to the transaction, as before TxnOffsetCommit v5."""
        request = AddOffsetsToTxnRequest(self.name, *self.ids, self.group)
        return asked_until(lambda: int(self.raw.ask(request, 3).error_code), STILL_ENDING)

    def commit(
        self, version: int, *rows: tuple[str, int], above: int = 0, name: str | None = None, **fields: Any
    ) -> list[int]:
        """Commits offset 5 for each topic and partition, in the transaction."""
        partition = {"committed_metadata": fields.pop("metadata", "")}
        topics = tuple(
            TxnOffsetCommitRequestTopic(
                topic, partitions=tuple(TxnOffsetCommitRequestPartition(index, 5, **partition) for _, index in of_topic)
            )
            for topic, of_topic in itertools.groupby(rows, lambda row: row[0])
        )
        who = self.name if name is None else name
        request = TxnOffsetCommitRequest(who, self.group, *self._ids(above, 0), topics=topics, **fields)
        for _ in range(TRIES):
            codes = [row.error_code for topic in self.raw.ask(request, version).topics for row in topic.partitions]
            if 51 not in codes:
                break
        return codes

    def position(self, topic: str, version: int = 7, *, is_stable: bool = True) -> tuple[int, int]:
        """The group's offset of partition 0, and the error code."""
        topics = (OffsetFetchRequestTopic(topic, partition_indexes=(0,)),)
        request = OffsetFetchRequest(group_id=self.group, topics=topics, require_stable=is_stable)
        (found,) = self.raw.ask(request, version).topics[0].partitions
        return found.committed_offset, found.error_code

    def settled_position(self, topic: str) -> tuple[int, int]:
        """Once the marker is written, which happens after EndTxn is answered."""
        asked_until(lambda: self.position(topic)[1], (88,))
        return self.position(topic)
