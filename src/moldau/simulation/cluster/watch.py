"""Rules about the internal state of nodes: replicas are equal below the high watermark, and each epoch has one leader.

They use the ledgers of the simulations of one partition and of the quorum. They read the nodes after each request and
change nothing.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from moldau.core.config.topic_settings import INTERNAL_TOPICS
from moldau.core.controller.elections import is_moving
from moldau.core.controller.partition_changes import may_lead
from moldau.core.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from moldau.core.raft.messages import NOBODY, SnapshotId
from moldau.core.replication.partition import Partition
from moldau.shell.node.assemble import Node
from moldau.shell.quorum.role import QuorumRole
from moldau.simulation.cluster.compacted_ledger import CompactedLedger
from moldau.simulation.cluster.images import check_equal_images
from moldau.simulation.cluster.machine import ClusterMachine
from moldau.simulation.loop import CURRENT_PROCESS
from moldau.simulation.raft.ledger import QuorumLedger
from moldau.simulation.replication.ledger import Ledger
from moldau.simulation.trace import Trace
from moldau.simulation.violation import ViolationError
from moldau.types import Uuid

PartitionKey = tuple[Uuid, int]
UNCLEAN_ELECTIONS = "unclean.leader.election.enable"


class ClusterEvent(enum.Enum):
    """Events of replication, with their names in the report. A rule about an event that never occurs proves nothing."""

    ISR_SHRINKS = "in-sync replicas shrink"
    ISR_GROWS = "in-sync replicas grow"
    TRUNCATION = "a log is truncated"
    ELECTION = "a leader is elected"
    ELIGIBLE_ELECTION = "an eligible leader replica is elected"
    UNCLEAN_ELECTION = "the last known leader is elected uncleanly"
    COORDINATOR_MOVES = "a coordinator moves to another broker"
    CONTROLLER_ELECTION = "a controller is elected"
    SNAPSHOT_LOAD = "a snapshot takes the place of a metadata log"
    MOVE = "a reassignment ends"
    INTERNAL_MOVE = "a reassignment of an internal topic ends"
    LONE_REPLICA = "the only replica of a partition is elected"
    VOTER_CHANGE = "the voters of the quorum change"
    DELETION = "a replica has deleted old records"
    CLEANING = "a replica was cleaned"
    LOSS = "a replica that lacks something is elected uncleanly"
    NEAR_READ = "a consumer reads from a follower"
    TOKEN_IN = "a delegation token that lasts logs in at the end"
    TOKEN_OUT = "a delegation token that has ended does not"


class ClusterWatch:
    """`happened`: how often each replication event has occurred."""

    def __init__(self, machines: Sequence[ClusterMachine], trace: Trace) -> None:
        self.happened: Counter[ClusterEvent] = Counter()
        self.newest = MetadataImage()
        """The newest image of any node."""
        self.compacted: dict[str, None] = {}
        """Topics with compacted replicas."""
        self.lost: Callable[[Uuid, int], None] = lambda topic_id, index: None
        """Called with a partition once it has a leader that may lack committed records."""
        self._machines = machines
        self._trace = trace
        self._quorum = QuorumLedger(trace)
        self._partitions: dict[PartitionKey, Ledger] = {}
        self._images: dict[tuple[PartitionKey, int], PartitionImage] = {}
        """The image of each partition, by its partition epoch."""
        self._seen: dict[str, _NodeSeen] = {}
        self._troubled: dict[int, tuple[int, ...]] = {}
        """Nodes with disk trouble at the time of a decision, by the end of the controller's log, until the decision is
        known."""

    def look(self) -> None:
        """Called after each request. First checks decisions, then the replicas."""
        machines = [machine for machine in self._machines if self._may_have_changed(machine)]
        for machine in machines:
            self._remember_trouble(machine)
            self.look_at_image(machine)
        for machine in machines:
            if machine.node is None or machine.node.quorum.is_offline:
                continue  # a failed only directory cannot be read
            seen = self._seen[machine.host]
            with machine.without_faults():
                self._look_at_quorum(machine.host, seen)
                for partition in partitions_of(seen.node):
                    self._look_at_partition(machine, seen, partition)

    def _may_have_changed(self, machine: ClusterMachine) -> bool:
        """Whether the node runs now, or has run since the last check."""
        process, seen = machine.process, self._seen.get(machine.host)
        if process is None or process is CURRENT_PROCESS.get() or seen is None or seen.node is not machine.node:
            return True
        turns, seen.turns = seen.turns, process.turns
        return process.turns != turns

    def look_at_image(self, machine: ClusterMachine) -> None:
        """Checks the metadata image that the node has published; the last time when its process ends."""
        node = machine.node
        if node is None:
            return
        seen = self._seen.get(machine.host)
        if seen is None or seen.node is not node:
            self._node_began(machine.host, node, seen)
            seen = self._seen[machine.host] = _NodeSeen(node)
        image = image_of(node)
        if image.end_offset != seen.image_end_offset:
            self._image_changed(machine, seen, image)

    def is_quorum_whole(self, has_all_voters: bool) -> bool:
        """Whether every node has all committed metadata, knows that it is committed, and knows the same leader.
        `has_all_voters`: exactly the controllers are voters."""
        quorums = [machine.node.quorum for machine in self._machines if machine.node is not None]
        if any(quorum.is_offline for quorum in quorums) or len({quorum.leader_id for quorum in quorums}) != 1:
            return False
        controllers = [machine for machine in self._machines if machine.is_controller]
        live = sorted((machine.node_id, machine.directory_id) for machine in controllers)
        return quorums[0].leader_id != NOBODY and all(
            quorum.high_watermark >= self._quorum.committed_end_offset
            and (not has_all_voters or voters_known_to(quorum) == live)
            for quorum in quorums
        )

    # -- the metadata

    def _node_began(self, host: str, node: Node, before: _NodeSeen | None) -> None:
        """A finished start may have replaced the log on its disk by a snapshot."""
        if before is not None and before.node.quorum.identity != node.quorum.identity:
            self._quorum.lost(host)
        log, known = node.quorum.log, self._quorum.replicas.get(host)
        if log.log_start_offset > (0 if known is None else known.high_watermark):
            self.happened[ClusterEvent.SNAPSHOT_LOAD] += 1
        self._quorum.opened(host, log, log.log_start_offset)

    def _look_at_quorum(self, host: str, seen: _NodeSeen) -> None:
        quorum = seen.node.quorum
        end_offset = quorum.high_watermark
        replica = self._quorum.replicas[host]
        if end_offset > replica.high_watermark:
            log = quorum.log
            if log.log_start_offset > replica.high_watermark:
                self.happened[ClusterEvent.SNAPSHOT_LOAD] += 1
                self._quorum.replaced(host, SnapshotId(log.log_start_offset, log.leader_epochs.latest_epoch))
            if end_offset > self._quorum.replicas[host].high_watermark:
                self._quorum.high_watermark_moved(host, log, end_offset)
        if quorum.is_leader and quorum.leader_epoch != seen.quorum_epoch:
            seen.quorum_epoch = quorum.leader_epoch
            self.happened[ClusterEvent.CONTROLLER_ELECTION] += 1
            self._quorum.leadership_began(host, quorum.leader_epoch, quorum.log)

    def _image_changed(self, machine: ClusterMachine, seen: _NodeSeen, image: MetadataImage) -> None:
        if image.end_offset < seen.image_end_offset:
            raise ViolationError(
                "the image never goes back", f"{machine.host}: {seen.image_end_offset} to {image.end_offset}"
            )
        seen.image_end_offset = image.end_offset
        for topic in image.topics_by_id.values():
            for index, partition in topic.partitions.items():
                key = (topic.topic_id, index)
                known = self._images.setdefault((key, partition.partition_epoch), partition)
                if known != partition:
                    raise ViolationError(
                        "a partition epoch has one state", f"{topic.name}-{index}: {known} and {partition}"
                    )
        if image.end_offset > self.newest.end_offset:
            older, self.newest = self.newest, image.copy()
            self._decided(older)
            self._troubled = {end: who for end, who in self._troubled.items() if end > image.end_offset}

    def _remember_trouble(self, machine: ClusterMachine) -> None:
        """Remembers disk trouble at a controller's decision, because the trouble may be over when the decision becomes
        known."""
        if machine.node is not None and machine.node.quorum.is_leader:
            end_offset = machine.node.quorum.log.log_end_offset
            if end_offset > self.newest.end_offset and end_offset not in self._troubled:
                self._troubled[end_offset] = self._troubled_now()

    def _troubled_now(self) -> tuple[int, ...]:
        return tuple(machine.node_id for machine in self._machines if machine.has_disk_trouble)

    def _decided(self, older: MetadataImage) -> None:
        """A node has newer metadata than any node had before."""
        came = [one for one, broker in self.newest.brokers.items() if broker.is_active and not _is_active(older, one)]
        able = self._without_trouble()
        for topic in self.newest.topics_by_id.values():
            for partition in topic.partitions.values():
                self._check_leaderless(partition, [one for one in came if one in able])
        for topic_id, topic in self.newest.topics_by_id.items():
            if topic_id in older.topics_by_id:
                for index, partition in topic.partitions.items():
                    before = older.topics_by_id[topic_id].partitions.get(index)
                    if before is not None and before != partition:
                        self._partition_changed(before, partition, able)
                        if may_lack(self.newest, topic.name, before, partition):
                            self.happened[ClusterEvent.LOSS] += 1
                            self.allow_loss((topic_id, index))
                        if topic.name in INTERNAL_TOPICS and partition.leader not in (NO_LEADER, before.leader):
                            self.happened[ClusterEvent.COORDINATOR_MOVES] += 1
                        if topic.name in INTERNAL_TOPICS and is_moving(before) and not is_moving(partition):
                            self.happened[ClusterEvent.INTERNAL_MOVE] += 1

    def _without_trouble(self) -> list[int]:
        """The nodes without disk trouble, now and at the time of the latest known decision."""
        then = [who for end, who in self._troubled.items() if end <= self.newest.end_offset]
        troubled = {one for who in (*then, self._troubled_now()) for one in who}
        return [machine.node_id for machine in self._machines if machine.node_id not in troubled]

    def _check_leaderless(self, partition: PartitionImage, candidates: Iterable[int]) -> None:
        """A replica that has all records and may lead must lead if no other replica does. A broker with a failed
        directory halts."""
        if partition.leader == NO_LEADER:
            eligible = (*partition.isr, *partition.eligible_leader_replicas)
            able = [one for one in candidates if one in eligible and may_lead(self.newest, partition, one)]
            if able:
                raise ViolationError("who has everything leads", f"{able} could lead, and nobody does: {partition}")

    def _partition_changed(self, before: PartitionImage, now: PartitionImage, able: Iterable[int]) -> None:
        if any(replica not in now.isr for replica in before.isr):
            self.happened[ClusterEvent.ISR_SHRINKS] += 1
        if any(replica not in before.isr for replica in now.isr):
            self.happened[ClusterEvent.ISR_GROWS] += 1
        self._check_leaderless(now, able)
        if now.leader != before.leader and now.leader >= 0:
            self.happened[ClusterEvent.ELECTION] += 1
            self.happened[ClusterEvent.LONE_REPLICA] += now.replicas == (now.leader,)
            if now.leader_recovery_state and not before.leader_recovery_state:
                self.happened[ClusterEvent.UNCLEAN_ELECTION] += 1
            elif now.leader in before.eligible_leader_replicas:
                self.happened[ClusterEvent.ELIGIBLE_ELECTION] += 1
        if is_moving(before) and not is_moving(now):
            self.happened[ClusterEvent.MOVE] += 1

    def allow_loss(self, key: PartitionKey) -> None:
        """Promises of the partition may be lost."""
        if key in self._partitions:
            self._partitions[key].allow_loss()
        self.lost(*key)

    # -- replicas

    def _look_at_partition(self, machine: ClusterMachine, seen: _NodeSeen, partition: Partition) -> None:
        position = partition.position
        known = seen.positions.get(partition.number)
        now = (position.high_watermark, position.log_end_offset, partition.leader_epoch)
        if now == known or partition.is_offline or partition.topic_id is None:
            return
        seen.positions[partition.number] = now
        host, log = machine.host, partition.log
        if not partition.are_offsets_in_order:
            raise ViolationError("invariants hold", f"{host} {partition.topic_partition}: offsets out of order")
        key = partition.topic_id, partition.topic_partition.partition
        ledger = self._partitions.get(key)
        if ledger is None:
            kind = CompactedLedger if partition.topic_partition.topic in self.compacted else Ledger
            ledger = self._partitions[key] = kind(self._trace)
        name = f"{host} {partition.topic_partition}"
        if known is None:
            ledger.opened(name, log, position.high_watermark)
        else:
            if position.log_end_offset < known[1]:
                self.happened[ClusterEvent.TRUNCATION] += 1
            if position.high_watermark != known[0]:
                ledger.high_watermark_moved(name, log, position.high_watermark)
        if self._may_lead(machine, seen.node, partition):
            ledger.joined(name, log)
        if partition.leader is not None and (known is None or partition.leader_epoch != known[2]):
            ledger.leadership_began(name, partition.leader_epoch, log)

    def _may_lead(self, machine: ClusterMachine, node: Node, partition: Partition) -> bool:
        """Whether this life of the broker has all committed records: it is in sync, or an eligible leader."""
        broker = self.newest.brokers.get(machine.node_id)
        decided = self.newest.partition(partition.topic_partition)
        return (
            broker is not None
            and broker.epoch == node.broker.broker_epoch
            and decided is not None
            and machine.node_id in (*decided.isr, *decided.eligible_leader_replicas)
        )

    def check_whole(self) -> None:
        """In the end all replicas, metadata logs and images must be equal; replicas and logs byte by byte."""
        logs: dict[PartitionKey, list[tuple[str, Partition]]] = {}
        for machine in self._machines:
            if machine.node is not None:
                for partition in partitions_of(machine.node):
                    if partition.topic_id is not None:
                        key = (partition.topic_id, partition.topic_partition.partition)
                        logs.setdefault(key, []).append((f"{machine.host} {partition.topic_partition}", partition))
        for key, replicas in logs.items():
            ledger = self._partitions[key]
            starts = [partition.log.log_start_offset for _, partition in replicas]
            self.happened[ClusterEvent.DELETION] += sum(start > 0 for start in starts)
            ledger.check_equal(
                {name: partition.log for name, partition in replicas},
                {name: partition.position.high_watermark for name, partition in replicas},
            )
            if isinstance(ledger, CompactedLedger):
                self.happened[ClusterEvent.CLEANING] += ledger.cleaned_replicas
        quorums = {machine.host: machine.node.quorum for machine in self._machines if machine.node}
        self._quorum.check_logs({host: quorum.log for host, quorum in quorums.items()})
        self.happened[ClusterEvent.VOTER_CHANGE] = self._quorum.voter_changes()
        known = {host: voters_known_to(quorum) for host, quorum in quorums.items()}
        if any(voters != known[self._machines[0].host] for voters in known.values()):
            raise ViolationError("every node knows the voters", str(known))
        images = {f"the quorum of {host}": quorum.image for host, quorum in quorums.items()}
        images |= {machine.host: image_of(machine.node) for machine in self._machines if machine.node}
        check_equal_images(images)


def may_lack(image: MetadataImage, topic: str, before: PartitionImage, now: PartitionImage) -> bool:
    """Whether an unclean election, which the topic allows, has chosen a leader that may lack records."""
    if image.topic_configs(topic).get(UNCLEAN_ELECTIONS) != "true" or now.leader in (NO_LEADER, before.leader):
        return False
    return now.leader not in (*before.isr, *before.eligible_leader_replicas)


def image_of(node: Node) -> MetadataImage:
    """The metadata image that the node has published and its broker has applied."""
    return node.broker.image if node.settings.is_broker else node.quorum.image


def partitions_of(node: Node) -> Iterable[Partition]:
    """The replicas of a node; empty for a controller-only node."""
    return node.broker.partitions if node.settings.is_broker else ()


def voters_known_to(quorum: QuorumRole) -> list[tuple[int, Uuid]]:
    """The node id and directory of each voter; no directory for statically configured voters."""
    return sorted((key.node_id, key.directory_id) for key in quorum.voters.keys)


def _is_active(image: MetadataImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.is_active


class _NodeSeen:
    """The last known state of one life of a node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.turns = -1
        """The turns of its process."""
        self.image_end_offset = -1
        self.quorum_epoch = -1
        self.positions: dict[int, tuple[int, int, int]] = {}
        """High watermark, log end offset and leader epoch of each partition, by its number."""
