"""The transaction door of a broker among others: each leader gets what concerns it, this broker by a call."""

from __future__ import annotations

import asyncio

from moldau.core.config.topic_settings import TRANSACTION_STATE_TOPIC
from moldau.core.groups.group_partitions import partition_for_group
from moldau.core.metadata.image import NO_LEADER
from moldau.core.transactions.records import partitions_by_topic
from moldau.errors import ERROR_CODES
from moldau.shell.broker.other_brokers import OtherBrokers
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.broker.partitions import Partitions
from moldau.shell.broker.transaction_door import TransactionDoor
from moldau.shell.peers.peer import NoAnswerError
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


class ClusterTransactionDoor:
    """See TransactionDoor. `own`: the one to this broker."""

    def __init__(self, node: OwnNode, partitions: Partitions, own: TransactionDoor, others: OtherBrokers) -> None:
        self._node = node
        self._partitions = partitions
        self._own = own
        self._others = others

    # -- to the coordinators

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: tuple[TopicPartition, ...],
        *,
        verify_only: bool,
        transaction_version: int,
    ) -> dict[TopicPartition, int]:
        """Asks the coordinator of the transactional id, here or at another broker. Gives an error code for each
        partition: COORDINATOR_NOT_AVAILABLE (15) where no answer comes."""
        coordinator = self._coordinator_of(transactional_id)
        if coordinator in (self._node.node_id, NO_LEADER):
            return await self._own.add_partitions(
                transactional_id,
                producer_id,
                producer_epoch,
                partitions,
                verify_only=verify_only,
                transaction_version=transaction_version,
            )
        by_topic = partitions_by_topic(partitions)
        topics = tuple(AddPartitionsToTxnTopic(name, tuple(indexes)) for name, indexes in by_topic.items())
        transaction = AddPartitionsToTxnTransaction(
            transactional_id, producer_id, producer_epoch, verify_only=verify_only, topics=topics
        )
        codes = dict.fromkeys(partitions, COORDINATOR_NOT_AVAILABLE)
        try:
            answer = await self._others.ask(coordinator, AddPartitionsToTxnRequest((transaction,)), TIMEOUT_MS)
        except NoAnswerError:
            return codes
        if answer.error_code:
            return dict.fromkeys(partitions, answer.error_code)
        for result in answer.results_by_transaction:
            for topic in result.topic_results:
                for row in topic.results_by_partition:
                    codes[TopicPartition(topic.name, row.partition_index)] = row.partition_error_code
        return codes

    def _coordinator_of(self, transactional_id: str) -> int:
        topic = self._partitions.image.topics_by_name.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return NO_LEADER
        return topic.partitions[partition_for_group(transactional_id, len(topic.partitions))].leader

    # -- to the leaders of partitions

    async def write_markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """Asks the leader of each partition, all leaders at once, and gives their answers as one, by producer id."""
        by_leader: dict[int, list[WritableTxnMarker]] = {}
        for marker in request.markers:
            for leader, part in self._by_leader(marker).items():
                by_leader.setdefault(leader, []).append(part)
        if list(by_leader) == [self._node.node_id]:
            return await self._own.write_markers(request)
        answers = await asyncio.gather(*(self._write(leader, tuple(parts)) for leader, parts in by_leader.items()))
        topics: dict[int, list[WritableTxnMarkerTopicResult]] = {}
        for answer in answers:
            for result in answer.markers:
                topics.setdefault(result.producer_id, []).extend(result.topics)
        return WriteTxnMarkersResponse(
            tuple(WritableTxnMarkerResult(producer_id, tuple(rows)) for producer_id, rows in topics.items())
        )

    def _by_leader(self, marker: WritableTxnMarker) -> dict[int, WritableTxnMarker]:
        """The marker for the partitions of each leader; this broker answers for those that nobody has."""
        places: dict[int, list[TopicPartition]] = {}
        for topic in marker.topics:
            for index in topic.partition_indexes:
                place = TopicPartition(topic.name, index)
                partition = self._partitions.image.partition(place)
                places.setdefault(self._node.node_id if partition is None else partition.leader, []).append(place)
        return {
            leader: WritableTxnMarker(
                marker.producer_id,
                marker.producer_epoch,
                marker.transaction_result,
                tuple(
                    WritableTxnMarkerTopic(name, tuple(indexes))
                    for name, indexes in partitions_by_topic(of_leader).items()
                ),
                marker.coordinator_epoch,
                marker.transaction_version,
            )
            for leader, of_leader in places.items()
        }

    async def _write(self, leader: int, markers: tuple[WritableTxnMarker, ...]) -> WriteTxnMarkersResponse:
        request = WriteTxnMarkersRequest(markers)
        if leader == self._node.node_id:
            return await self._own.write_markers(request)
        try:
            return await self._others.ask(leader, request, TIMEOUT_MS)
        except NoAnswerError:
            return _all_refused(markers, NETWORK_EXCEPTION)


def _all_refused(markers: tuple[WritableTxnMarker, ...], code: int) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        tuple(
            WritableTxnMarkerResult(
                marker.producer_id,
                tuple(
                    WritableTxnMarkerTopicResult(
                        topic.name,
                        tuple(WritableTxnMarkerPartitionResult(index, code) for index in topic.partition_indexes),
                    )
                    for topic in marker.topics
                ),
            )
            for marker in markers
        )
    )
