"""A controller for the simulation: one machine that never fails, on the same network as the others.

It registers brokers, fences those without heartbeats, decides on proposed in-sync replicas, and elects leaders by the
rules of the real controller (`core.controller.elections`, KIP-966).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from moldau.core.controller.elections import ElectionRules, change_in_sync
from moldau.core.metadata.fold import merge_partition
from moldau.core.metadata.image import NO_LEADER, LeaderRecoveryState, PartitionImage
from moldau.simulation.calls import Respond
from moldau.simulation.loop import SimulatedProcess
from moldau.simulation.replication.messages import AlterPartition, AlterPartitionAnswer, Heartbeat, Metadata, Register
from moldau.simulation.replication.story import Story
from moldau.types import ZERO_UUID, BrokerId, LeaderEpoch
from moldau.wire.protocol.messages.metadata_records import PartitionChangeRecord

CHECK_MS = 100
UNCLEAN_AFTER_MS = 1_500
"""If unclean elections are allowed, the time without a leader before a replica is elected that may lack records."""


class _Broker(msgspec.Struct):
    epoch: int
    incarnation: int
    heartbeat_ms: int
    is_fenced: bool = True


class Controller:
    """`on_change` is called after each change of the partition, `on_registered` when the earlier state of a broker no
    longer counts."""

    def __init__(
        self,
        story: Story,
        *,
        on_change: Callable[[], None],
        on_registered: Callable[[int], None],
    ) -> None:
        self.story = story
        self.trace = story.trace
        self.process = SimulatedProcess("controller")
        self.partition = PartitionImage(story.replicas, story.replicas, BrokerId(NO_LEADER), LeaderEpoch(0), 0)
        self.brokers: dict[int, _Broker] = {}
        self._on_change = on_change
        self._on_registered = on_registered
        self.unclean_elections = 0
        self._version = 0
        self._next_broker_epoch = 1
        self._leaderless_since_ms = 0
        story.calls.serve("controller", self.process, self.receive)
        story.after(CHECK_MS, self._check, self.process)

    def receive(self, request: object, respond: Respond) -> None:
        match request:
            case Register():
                self._register(request)
                respond(self._metadata(self.brokers[request.broker_id]))
            case Heartbeat():
                broker = self.brokers.get(request.broker_id)
                if broker is not None and broker.epoch == request.broker_epoch:
                    self._heard(request.broker_id, broker)
                    respond(self._metadata(broker))
            case AlterPartition():
                respond(self._alter(request))

    def replicas_with_everything(self) -> tuple[int, ...]:
        """The replicas that have every acknowledged record, unless power was lost."""
        partition = self.partition
        return (*partition.isr, *partition.eligible_leader_replicas) or partition.last_known_elr

    def _metadata(self, broker: _Broker) -> Metadata:
        epochs = {broker_id: known.epoch for broker_id, known in self.brokers.items() if not known.is_fenced}
        return Metadata(self._version, broker.epoch, self.partition, epochs)

    def _is_active(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced

    def _register(self, request: Register) -> None:
        known = self.brokers.get(request.broker_id)
        if known is not None and request.incarnation <= known.incarnation:
            return  # a duplicate, or late
        is_clean = known is None or request.previous_epoch == known.epoch
        epoch, self._next_broker_epoch = self._next_broker_epoch, self._next_broker_epoch + 1
        self.brokers[request.broker_id] = _Broker(epoch, request.incarnation, self.story.now_ms)
        self._version += 1
        self.trace.tell(f"broker {request.broker_id} registers with epoch {epoch}{'' if is_clean else ', unclean'}")
        if known is not None:
            self._leave(request.broker_id, is_lost=not is_clean)
        self._on_registered(request.broker_id)

    def _heard(self, broker_id: int, broker: _Broker) -> None:
        broker.heartbeat_ms = self.story.now_ms
        if broker.is_fenced:
            broker.is_fenced = False
            self._version += 1
            self.trace.tell(f"broker {broker_id} is unfenced")
            self._change(self.partition.isr)

    def _leave(self, broker_id: int, *, is_lost: bool) -> None:
        isr = tuple(replica for replica in self.partition.isr if replica != broker_id)
        self._change(isr, (broker_id,) if is_lost else ())

    def _check(self) -> None:
        self.story.after(CHECK_MS, self._check, self.process)
        for broker_id, broker in self.brokers.items():
            if not broker.is_fenced and self.story.now_ms - broker.heartbeat_ms > self.story.session_timeout_ms:
                broker.is_fenced = True
                self._version += 1
                self.trace.tell(f"broker {broker_id} is fenced")
                self._leave(broker_id, is_lost=False)
        if self.partition.leader != NO_LEADER:
            self._leaderless_since_ms = self.story.now_ms
        elif self.story.allows_unclean_election:
            self._elect_uncleanly()

    def _elect_uncleanly(self) -> None:
        active = [replica for replica in self.partition.replicas if self._is_active(replica)]
        if active and self.story.now_ms - self._leaderless_since_ms > UNCLEAN_AFTER_MS:
            leader = active[0]
            change = PartitionChangeRecord(
                isr=(leader,),
                leader=leader,
                leader_recovery_state=LeaderRecoveryState.RECOVERING,
                eligible_leader_replicas=(),
                last_known_elr=(),
            )
            self.unclean_elections += 1
            self._apply(change, "unclean election")

    def _alter(self, request: AlterPartition) -> AlterPartitionAnswer:
        partition, proposal = self.partition, request.proposal
        broker = self.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return AlterPartitionAnswer(error="STALE_BROKER_EPOCH")
        if proposal.leader_epoch != partition.leader_epoch or partition.leader != request.broker_id:
            return AlterPartitionAnswer(error="FENCED_LEADER_EPOCH")
        if proposal.partition_epoch != partition.partition_epoch:
            return AlterPartitionAnswer(error="INVALID_UPDATE_VERSION")
        for replica, epoch in proposal.isr:
            if not self._is_active(replica) or epoch not in (-1, self.brokers[replica].epoch):
                return AlterPartitionAnswer(error="INELIGIBLE_REPLICA")
        self._change(tuple(replica for replica, _ in proposal.isr))
        return AlterPartitionAnswer(self.partition)

    def _change(self, isr: tuple[int, ...], lost: tuple[int, ...] = ()) -> None:
        change = change_in_sync(
            ZERO_UUID,
            0,
            self.partition,
            ElectionRules(self.story.replication_settings.min_insync_replicas, has_elr=True),
            target_isr=isr,
            is_active=self._is_active,
            lost_replicas=lost,
        )
        if change is not None:
            self._apply(change, "change")

    def _apply(self, change: PartitionChangeRecord, what: str) -> None:
        self.partition = partition = merge_partition(self.partition, change)
        self._version += 1
        self.trace.tell(
            f"{what}: leader {partition.leader} in epoch {partition.leader_epoch}, isr {list(partition.isr)}, "
            f"elr {list(partition.eligible_leader_replicas)}, last known {list(partition.last_known_elr)}"
        )
        self._on_change()
