"""The state of a cluster: fenced brokers, replicas out of sync, reassignments, voters."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import msgspec

from moldau.client.admin.brokers import describe_cluster
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.partitions import list_reassignments
from moldau.client.admin.quorum import describe_quorum, is_without_controller
from moldau.errors import KafkaError
from moldau.products.console.cluster import Cluster, ClusterError, PartitionFacts, TopicFacts
from moldau.products.console.sampler import Snapshot

MAX_ROWS = 50
"""How many partitions are shown that are out of sync, and how many that are being reassigned."""
_DENIED = "CLUSTER_AUTHORIZATION_FAILED"


class BrokerRow(msgspec.Struct, frozen=True):
    """`out_of_sync`: the number of its replicas that are out of sync."""

    broker_id: int
    address: str
    rack: str | None
    is_fenced: bool
    leads: int
    replicas: int
    out_of_sync: int


class VoterRow(msgspec.Struct, frozen=True):
    """`heard_s`: seconds since the leader last heard from it; None for never."""

    node_id: int
    role: str
    log_end_offset: int
    lag: int
    heard_s: int | None


class MoveRow(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ClusterState(msgspec.Struct, frozen=True):
    """`voters` is empty if the cluster does not return them, or has no leader just now."""

    brokers: tuple[BrokerRow, ...]
    voters: tuple[VoterRow, ...]
    moves: tuple[MoveRow, ...]
    behind: tuple[tuple[str, PartitionFacts], ...]
    """Topic and partition, for partitions without a leader or with replicas out of sync."""
    has_controller: bool = True
    """False: the facts on brokers and partitions are the last ones that a broker knew."""
    is_denied: bool = False
    """This principal may not describe the cluster, so `voters` and `moves` are empty."""

    @property
    def active_controller(self) -> int | None:
        return next((voter.node_id for voter in self.voters if voter.role == "leader"), None)

    def broker(self, broker_id: int) -> BrokerRow | None:
        return next((row for row in self.brokers if row.broker_id == broker_id), None)


class StateSeen(msgspec.Struct, frozen=True):
    """`state`: None before the first answer. `error`: why the last request failed; `state` is then the last known one.
    `not_served`: features that the cluster lacks."""

    state: ClusterState | None = None
    not_served: tuple[str, ...] = ()
    error: str | None = None


class ClusterWatch:
    """The state of the cluster for all viewers: asked once for each snapshot that a viewer requests. Thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._seen = StateSeen()

    def at(self, snapshot: Snapshot) -> StateSeen:
        """The state for a snapshot. The first viewer's call asks the cluster; the others wait for the same answer."""
        with self._lock:
            if snapshot is not self._snapshot:
                self._seen = self._ask(snapshot)
                self._snapshot = snapshot
            return self._seen

    def _ask(self, snapshot: Snapshot) -> StateSeen:
        try:
            state = self._cluster.ask(lambda admin: read_state(admin, snapshot.topics))
        except ClusterError as error:
            return msgspec.structs.replace(self._seen, error=str(error))
        return StateSeen(state, tuple(self._cluster.features_not_served()))


def is_whole(partition: PartitionFacts) -> bool:
    """Whether the partition has a leader and all of its replicas are in sync."""
    return partition.leader >= 0 and len(partition.in_sync) >= len(partition.replicas)


def read_state(admin: ClusterAdmin, topics: Iterable[TopicFacts]) -> ClusterState:
    """Raises KafkaError if no broker answers."""
    named = [(topic.name, partition) for topic in topics for partition in topic.partitions]
    partitions = [partition for _, partition in named]
    brokers = tuple(
        BrokerRow(
            row.broker_id,
            f"{row.host}:{row.port}",
            row.rack,
            row.is_fenced,
            sum(each.leader == row.broker_id for each in partitions),
            sum(row.broker_id in each.replicas for each in partitions),
            sum(row.broker_id in each.replicas and row.broker_id not in each.in_sync for each in partitions),
        )
        for row in describe_cluster(admin, with_fenced=True).brokers
    )
    behind = tuple((name, each) for name, each in named if not is_whole(each))
    try:
        moves = _moves(admin)
    except KafkaError as error:
        if error.name != _DENIED:
            raise
        return ClusterState(brokers, (), (), behind, is_denied=True)
    try:
        return ClusterState(brokers, _voters(admin), moves, behind)
    except KafkaError as error:
        return ClusterState(brokers, (), moves, behind, has_controller=not is_without_controller(error))


def _moves(admin: ClusterAdmin) -> tuple[MoveRow, ...]:
    """Raises KafkaError."""
    return tuple(
        MoveRow(partition.topic, partition.partition, *replicas)
        for partition, replicas in sorted(list_reassignments(admin).items())
    )


def _voters(admin: ClusterAdmin) -> tuple[VoterRow, ...]:
    """Raises KafkaError."""
    quorum, now_ms = describe_quorum(admin), time.time_ns() // 1_000_000
    return tuple(
        VoterRow(
            replica.node_id,
            replica.status.lower(),
            replica.log_end_offset,
            quorum.lag_of(replica),
            None if replica.last_fetch_ms is None else max(0, now_ms - replica.last_fetch_ms) // 1_000,
        )
        for replica in sorted((*quorum.voters, *quorum.observers), key=lambda each: each.node_id)
    )
