"""The transaction port of a broker among others. Sends each leader its part; calls this broker directly.

Questions of many transactions to another broker share one request (see `merged_requests`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

from moldau.core.config.topic_settings import TRANSACTION_STATE_TOPIC
from moldau.core.groups.group_partitions import partition_for_group
from moldau.core.metadata.image import NO_LEADER
from moldau.core.transactions.records import partitions_by_topic
from moldau.core.transactions.requests import AddOrVerify, VerifyPartitions
from moldau.errors import ERROR_CODES
from moldau.shell.broker.cluster.merged_requests import MergedRequests
from moldau.shell.broker.cluster.other_brokers import OtherBrokers
from moldau.shell.broker.coordination.transaction_port import TransactionPort
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.broker.partitions import Partitions
from moldau.types import TopicPartition
from moldau.wire.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

TIMEOUT_MS = 30_000
COORDINATOR_NOT_AVAILABLE = ERROR_CODES["COORDINATOR_NOT_AVAILABLE"]
NETWORK_EXCEPTION = ERROR_CODES["NETWORK_EXCEPTION"]


_Additions = MergedRequests[str, AddPartitionsToTxnTransaction, dict[TopicPartition, int]]
"""By transactional id."""
_Markers = MergedRequests[int, WritableTxnMarker, dict[TopicPartition, int]]
"""By producer id."""


class ClusterTransactionPort:
    """See TransactionPort. `own`: the port to this broker."""

    def __init__(self, node: OwnNode, partitions: Partitions, own: TransactionPort, others: OtherBrokers) -> None:
        self._node = node
        self._partitions = partitions
        self._own = own
        self._others = others
        self._additions: dict[int, _Additions] = {}
        self._markers: dict[int, _Markers] = {}
        """By broker id."""

    # -- to the coordinators

    async def add_partitions(self, request: AddOrVerify) -> dict[TopicPartition, int]:
        """Asks the coordinator of the transactional id, here or at another broker. Returns an error code for each
        partition: COORDINATOR_NOT_AVAILABLE (15) if no answer comes."""
        coordinator = self._coordinator_of(request.transactional_id)
        if coordinator in (self._node.node_id, NO_LEADER):
            return await self._own.add_partitions(request)
        by_topic = partitions_by_topic(request.partitions)
        transaction = AddPartitionsToTxnTransaction(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            verify_only=isinstance(request, VerifyPartitions),
            topics=tuple(AddPartitionsToTxnTopic(name, tuple(indexes)) for name, indexes in by_topic.items()),
        )
        merged = self._additions.get(coordinator)
        if merged is None:
            merged = self._additions[coordinator] = MergedRequests(
                self._node.spawn, partial(self._send_additions, coordinator)
            )
        codes = await merged.ask(request.transactional_id, transaction, len(request.partitions))
        return dict.fromkeys(request.partitions, COORDINATOR_NOT_AVAILABLE) | (codes or {})

    async def _send_additions(
        self, coordinator: int, transactions: Mapping[str, AddPartitionsToTxnTransaction]
    ) -> dict[str, dict[TopicPartition, int]]:
        request = AddPartitionsToTxnRequest(tuple(transactions.values()))
        answer = await self._others.ask(coordinator, request, TIMEOUT_MS)
        if answer.error_code:
            return {
                name: {
                    TopicPartition(topic.name, index): answer.error_code
                    for topic in transaction.topics
                    for index in topic.partitions
                }
                for name, transaction in transactions.items()
            }
        return {
            result.transactional_id: {
                TopicPartition(topic.name, row.partition_index): row.partition_error_code
                for topic in result.topic_results
                for row in topic.results_by_partition
            }
            for result in answer.results_by_transaction
        }

    def _coordinator_of(self, transactional_id: str) -> int:
        topic = self._partitions.image.topics_by_name.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return NO_LEADER
        return topic.partitions[partition_for_group(transactional_id, len(topic.partitions))].leader

    # -- to the leaders of partitions

    async def write_markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """Asks the leaders of all partitions at once, and merges their answers, by producer id."""
        parts = [part for marker in request.markers for part in self._by_leader(marker).items()]
        if all(leader == self._node.node_id for leader, _ in parts):
            return await self._own.write_markers(request)
        topics: dict[int, list[WritableTxnMarkerTopicResult]] = {}
        for result in await asyncio.gather(*(self._write(leader, part) for leader, part in parts)):
            topics.setdefault(result.producer_id, []).extend(result.topics)
        return WriteTxnMarkersResponse(
            tuple(WritableTxnMarkerResult(producer_id, tuple(rows)) for producer_id, rows in topics.items())
        )

    def _by_leader(self, marker: WritableTxnMarker) -> dict[int, WritableTxnMarker]:
        """The marker for each leader's partitions. This broker answers for unknown partitions."""
        places: dict[int, list[TopicPartition]] = {}
        for topic in marker.topics:
            for index in topic.partition_indexes:
                place = TopicPartition(topic.name, index)
                partition = self._partitions.image.partition(place)
                places.setdefault(self._node.node_id if partition is None else partition.leader, []).append(place)
        return {
            leader: replace(
                marker,
                topics=tuple(
                    WritableTxnMarkerTopic(name, tuple(indexes))
                    for name, indexes in partitions_by_topic(of_leader).items()
                ),
            )
            for leader, of_leader in places.items()
        }

    async def _write(self, leader: int, marker: WritableTxnMarker) -> WritableTxnMarkerResult:
        """Partitions without an answer get NETWORK_EXCEPTION (13)."""
        if leader == self._node.node_id:
            return (await self._own.write_markers(WriteTxnMarkersRequest((marker,)))).markers[0]
        merged = self._markers.get(leader)
        if merged is None:
            merged = self._markers[leader] = MergedRequests(self._node.spawn, partial(self._send_markers, leader))
        things = sum(len(topic.partition_indexes) for topic in marker.topics)
        codes = await merged.ask(marker.producer_id, marker, things) or {}
        topics = tuple(
            WritableTxnMarkerTopicResult(
                topic.name,
                tuple(
                    WritableTxnMarkerPartitionResult(
                        index, codes.get(TopicPartition(topic.name, index), NETWORK_EXCEPTION)
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in marker.topics
        )
        return WritableTxnMarkerResult(marker.producer_id, topics)

    async def _send_markers(
        self, leader: int, markers: Mapping[int, WritableTxnMarker]
    ) -> dict[int, dict[TopicPartition, int]]:
        request = WriteTxnMarkersRequest(tuple(markers.values()))
        answer = await self._others.ask(leader, request, TIMEOUT_MS)
        return {
            result.producer_id: {
                TopicPartition(topic.name, row.partition_index): row.error_code
                for topic in result.topics
                for row in topic.partitions
            }
            for result in answer.markers
        }
