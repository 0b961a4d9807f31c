"""AlterPartition (KIP-497): sends the in-sync replicas that leaders here propose, and returns the controller's
decisions.

One request at a time carries all proposals. Those made meanwhile go into the next. Each leader gets an answer: if the
controller gives none, the leader gets an error, and proposes again when due.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from moldau.core.metadata.image import LeaderRecoveryState
from moldau.core.replication.partition import Partition
from moldau.core.replication.steps import Event, IsrAnswered, ProposeIsr
from moldau.errors import KafkaError, kafka_error
from moldau.shell.broker.cluster.controller_reports import ControllerReports, PartitionId
from moldau.shell.broker.own_node import OwnNode
from moldau.types import ZERO_UUID, BrokerId, LeaderEpoch, Uuid
from moldau.wire.protocol.messages.in_sync_replicas import (
    AlteredPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    ProposedPartition,
    ProposedTopic,
)

ISR_SHRINKS = "kafka.server:type=ReplicaManager,name=IsrShrinksPerSec"
ISR_EXPANDS = "kafka.server:type=ReplicaManager,name=IsrExpandsPerSec"
FAILED_ISR_UPDATES = "kafka.server:type=ReplicaManager,name=FailedIsrUpdatesPerSec"

_Proposal = tuple[Partition, ProposeIsr, str]
"""The partition, its proposal, and the metric to count once the controller has accepted."""


class IsrProposals:
    """See ControllerReports. `step` takes the answers."""

    def __init__(
        self, node: OwnNode, submit: Callable[[Any], Awaitable[Any]], step: Callable[[Partition, Event], None]
    ) -> None:
        self._node = node
        self._submit = submit
        self._step = step
        self._reports = ControllerReports(node, self._send)
        self.registered = self._reports.registered

    def add(self, partition: Partition, proposal: ProposeIsr) -> None:
        """Adds a proposal, in place of an unsent one for this partition."""
        key = partition.topic_id or ZERO_UUID, partition.topic_partition.partition
        in_sync = () if partition.leader is None else partition.leader.partition.isr
        metric = ISR_EXPANDS if len(proposal.isr) > len(in_sync) else ISR_SHRINKS
        self._reports.add(key, (partition, proposal, metric))

    async def _send(self, sent: dict[PartitionId, _Proposal]) -> bool:
        answers = await self._ask(sent)
        for key, (partition, proposal, metric) in sent.items():
            answer = _answer(partition, proposal, answers.get(key))
            self._node.telemetry.count(FAILED_ISR_UPDATES if answer.accepted is None else metric)
            self._step(partition, answer)
            await self._node.pauses.pause()
        return True

    async def _ask(self, sent: dict[PartitionId, _Proposal]) -> dict[PartitionId, AlteredPartition]:
        """The controller's answer for each partition; empty if it gave none."""
        proposed: dict[Uuid, list[ProposedPartition]] = {}
        for (topic_id, index), (_, proposal, _) in sent.items():
            proposed.setdefault(topic_id, []).append(
                ProposedPartition(
                    index,
                    proposal.leader_epoch,
                    new_isr_with_epochs=tuple(BrokerState(*replica) for replica in proposal.isr),
                    # a leader has recovered by then, as in Kafka (KIP-704)
                    leader_recovery_state=LeaderRecoveryState.RECOVERED,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        topics = tuple(ProposedTopic(topic_id, tuple(rows)) for topic_id, rows in proposed.items())
        try:
            answer: AlterPartitionResponse = await self._submit(
                AlterPartitionRequest(self._node.node_id, self._reports.broker_epoch, topics)
            )
            if answer.error_code:
                raise kafka_error(answer.error_code)
        except KafkaError as error:
            self._node.log.warn(
                "in-sync replicas", f"the controller did not take a change of in-sync replicas: {error}"
            )
            return {}
        return {(topic.topic_id, row.partition_index): row for topic in answer.topics for row in topic.partitions}


def _answer(partition: Partition, proposal: ProposeIsr, row: AlteredPartition | None) -> IsrAnswered:
    epoch, leader = proposal.partition_epoch, partition.leader
    if row is None or leader is None:
        return IsrAnswered(epoch, error="REQUEST_TIMED_OUT")
    if row.error_code:
        return IsrAnswered(epoch, error=kafka_error(row.error_code).name)
    return IsrAnswered(
        epoch,
        replace(
            leader.partition,
            leader=BrokerId(row.leader_id),
            leader_epoch=LeaderEpoch(row.leader_epoch),
            isr=row.isr,
            leader_recovery_state=row.leader_recovery_state,
            partition_epoch=row.partition_epoch,
        ),
    )
