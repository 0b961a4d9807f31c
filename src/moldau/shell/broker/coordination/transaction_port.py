"""The port between transaction coordinators and the leaders of partitions.

This module has the interface and its implementation for this broker alone. `cluster_transaction_port` reaches all
brokers, and its callers see no difference.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Protocol

import msgspec

from moldau.core.config.topic_settings import INTERNAL_TOPICS, OFFSETS_TOPIC
from moldau.core.replication.partition import Partition
from moldau.core.transactions.requests import AddOrVerify
from moldau.errors import ERROR_CODES, KafkaError, StorageFailedError, kafka_error
from moldau.shell.broker.logs.flusher import Flusher
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.broker.partitions import Partitions
from moldau.shell.broker.waits import PartitionWaits
from moldau.shell.network.first_step import Ended, Waiting, all_ended, begun
from moldau.types import LeaderEpoch, Offset, Pausing, ProducerEpoch, ProducerId, TopicPartition, each_of
from moldau.wire.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from moldau.wire.records.control import EndTransactionMarker

KAFKA_STORAGE_ERROR = ERROR_CODES["KAFKA_STORAGE_ERROR"]
MARKER_THINGS = 10
"""Appending a marker takes as long as this many small operations."""
SHORT_WORK_MARKERS = 5
"""A request with more markers pauses."""
MARKERS_AT_ONCE = 200
"""The most markers of a request that are written before the first wait."""

_Appended = tuple[TopicPartition, Partition, int, LeaderEpoch]
"""A written marker to wait for: its place, its partition, its end offset, and the epoch of the leader that wrote it."""

EndOffsets = Callable[[int, EndTransactionMarker, ProducerId, ProducerEpoch, int], Coroutine[Any, Any, int]]
"""Commits or drops a producer's pending offsets in one partition of `__consumer_offsets`: see
Coordinators.end_transaction."""


Adding = Callable[[AddOrVerify], Awaitable[dict[TopicPartition, int]]]
"""See TransactionCoordinators.add_partitions."""


class TransactionPort(Protocol):
    """The port from coordinators to the leaders of partitions, and from leaders to transaction coordinators."""

    @property
    def add_partitions(self) -> Adding:
        """A leader calls this before it appends the first batch of a transaction (AddPartitionsToTxn 4-5)."""
        ...

    async def write_markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """Ends transactions on the partitions that the request names. Returns one error code for each: 0 once the
        marker is as durable as the topic asks. A partition that is named twice is answered once."""


class _Written(msgspec.Struct):
    """The state of one marker: the code of each partition, and the appends still to wait for."""

    marker: WritableTxnMarker
    codes: dict[TopicPartition, int]
    appended: list[_Appended]
    ending: dict[TopicPartition, Ended[int] | Waiting[int]]
    """Partitions of `__consumer_offsets`."""


class LocalTransactionPort:
    """The port to the partitions and the coordinators of this broker."""

    def __init__(
        self,
        node: OwnNode,
        partitions: Partitions,
        flusher: Flusher,
        waits: PartitionWaits,
        high_watermark_moved: Callable[[Partition], None],
        end_offsets: EndOffsets,
        add_partitions: Adding,
    ) -> None:
        self._node = node
        self._partitions = partitions
        self._flusher = flusher
        self._waits = waits
        self._high_watermark_moved = high_watermark_moved
        self._end_offsets = end_offsets
        self.add_partitions = add_partitions

    async def write_markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """See TransactionPort. Writes all markers, in order, before it waits for the first (MARKERS_AT_ONCE at a time):
        replicated together, they take the time of one. Pauses if there are more than a few."""
        results: list[WritableTxnMarkerResult] = []
        for begin in range(0, len(request.markers), MARKERS_AT_ONCE):
            results += await self._write_all(request.markers[begin : begin + MARKERS_AT_ONCE])
        return WriteTxnMarkersResponse(tuple(results))

    async def _write_all(self, markers: Iterable[WritableTxnMarker]) -> list[WritableTxnMarkerResult]:
        pauses = self._node.pauses
        all_written: list[_Written] = []
        for marker in markers:
            all_written.append(await self._write(marker))
            if len(all_written) > SHORT_WORK_MARKERS:
                await pauses.pause(MARKER_THINGS)
        ended = iter(await all_ended([step for written in all_written for step in written.ending.values()]))
        results = []
        for written in all_written:
            written.codes.update(zip(written.ending, ended, strict=False))
            for place, partition, end_offset, leader_epoch in written.appended:
                try:
                    await self._wait_safe(partition, end_offset, leader_epoch)
                except KafkaError as error:
                    written.codes[place] = error.code
            results.append(await pauses.finish(_result(written.marker, written.codes)))
            if len(results) > SHORT_WORK_MARKERS:
                await pauses.pause(MARKER_THINGS)
        return results

    async def _write(self, marker: WritableTxnMarker) -> _Written:
        finish = self._node.pauses.finish
        written = _Written(marker, await finish(_places(marker)), [], {})
        await finish(self._append_all(marker, written.codes, written.appended), MARKER_THINGS)
        await finish(self._end_all(written), MARKER_THINGS)
        return written

    def _end_all(self, written: _Written) -> Pausing[None]:
        for place in written.codes:
            if place.topic == OFFSETS_TOPIC:
                written.ending[place] = begun(self._end_pending_offsets(place.partition, written.marker))
                yield

    def _append_all(
        self, marker: WritableTxnMarker, codes: dict[TopicPartition, int], appended: list[_Appended]
    ) -> Pausing[None]:
        for place in codes:
            try:
                self._append(place, marker, appended)
            except KafkaError as error:
                codes[place] = error.code
            except StorageFailedError:
                self._node.directory_failed()
                codes[place] = KAFKA_STORAGE_ERROR
            yield

    def _append(self, place: TopicPartition, marker: WritableTxnMarker, appended: list[_Appended]) -> None:
        """Appends the marker, and adds an append to wait for to `appended`. Raises as Partition.append_marker, and 3,
        42, and 17 for a log without transactions of clients."""
        if place.topic == OFFSETS_TOPIC:
            return
        partition = self._partitions.find(place.topic, place.partition)
        if place.topic in INTERNAL_TOPICS:
            raise kafka_error("INVALID_TOPIC_EXCEPTION")
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            raise kafka_error("INVALID_REQUEST")
        written = partition.append_marker(
            EndTransactionMarker(marker.transaction_result, marker.coordinator_epoch),
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_version,
            self._node.clock.now_ms(),
        )
        end_offset = written.last_offset + 1
        is_flush_due = end_offset - partition.log.recovery_point >= partition.flush_messages
        if is_flush_due:
            self._flusher.request(partition)
        if partition.high_watermark >= end_offset or partition.has_followers:
            self._high_watermark_moved(partition)
        if is_flush_due or partition.high_watermark < end_offset:
            appended.append((place, partition, end_offset, partition.leader_epoch))

    async def _wait_safe(self, partition: Partition, end_offset: int, leader_epoch: LeaderEpoch) -> None:
        """Waits as for acks=all. Raises KafkaError."""
        if end_offset - partition.log.recovery_point >= partition.flush_messages:
            await self._flusher.wait(partition, Offset(end_offset))
        await self._waits.wait_acknowledged(partition, end_offset, leader_epoch)

    async def _end_pending_offsets(self, index: int, marker: WritableTxnMarker) -> int:
        return await self._end_offsets(
            index,
            EndTransactionMarker(marker.transaction_result, marker.coordinator_epoch),
            ProducerId(marker.producer_id),
            ProducerEpoch(marker.producer_epoch),
            marker.transaction_version,
        )


def _places(marker: WritableTxnMarker) -> Pausing[dict[TopicPartition, int]]:
    places: dict[TopicPartition, int] = {}
    for topic in marker.topics:
        for index in topic.partition_indexes:
            places[TopicPartition(topic.name, index)] = 0
            yield
        yield
    return places


def _result(marker: WritableTxnMarker, codes: dict[TopicPartition, int]) -> Pausing[WritableTxnMarkerResult]:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for place, code in codes.items():
        topics.setdefault(place.topic, []).append(WritableTxnMarkerPartitionResult(place.partition, code))
        yield
    rows = yield from each_of(WritableTxnMarkerTopicResult(name, tuple(results)) for name, results in topics.items())
    return WritableTxnMarkerResult(marker.producer_id, rows)
