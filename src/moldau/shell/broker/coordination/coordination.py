"""The coordinators of a broker, each kind created at its first use: a broker without groups loads no code for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.core.config.topic_settings import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from moldau.core.metadata.image import MetadataDelta, MetadataImage
from moldau.core.replication.partition import Partition
from moldau.errors import kafka_error
from moldau.shell.broker.cluster.other_brokers import OtherBrokers
from moldau.shell.broker.cluster.topic_creation import ProducerIds, TopicCreation
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.broker.partitions import Partitions
from moldau.shell.broker.waits import PartitionWaits

if TYPE_CHECKING:
    from moldau.shell.broker.coordination.groups import Coordinators
    from moldau.shell.broker.coordination.transactions import TransactionCoordinators


class Coordination:
    """The group coordinators and the transaction coordinators of one broker."""

    def __init__(
        self,
        node: OwnNode,
        partitions: Partitions,
        waits: PartitionWaits,
        others: OtherBrokers,
        topic_creation: TopicCreation,
        producer_ids: ProducerIds,
        high_watermark_moved: Callable[[Partition], None],
        memory_bytes: int,
    ) -> None:
        """`memory_bytes`: the most memory for the members of all groups."""
        self._node = node
        self._partitions = partitions
        self._waits = waits
        self._others = others
        self.topic_creation = topic_creation
        self.producer_ids = producer_ids
        self._high_watermark_moved = high_watermark_moved
        self._memory_bytes = memory_bytes
        self._groups: Coordinators | None = None
        self._transactions: TransactionCoordinators | None = None
        self._first_group_check: asyncio.TimerHandle | None = None
        node.telemetry.held["moldau_group_memory_bytes"] = lambda: (self._memory_used_bytes, memory_bytes)

    @property
    def groups(self) -> Coordinators:
        """The group coordinators."""
        if self._groups is None:
            from moldau.shell.broker.coordination.groups import Coordinators

            self._groups = Coordinators(
                self._node,
                self._partitions,
                self._partitions.flusher,
                self._high_watermark_moved,
                self.topic_creation.create,
                self._memory_bytes,
            )
        return self._groups

    @property
    def transactions(self) -> TransactionCoordinators:
        """The transaction coordinators."""
        if self._transactions is None:
            from moldau.shell.broker.coordination.cluster_transaction_port import ClusterTransactionPort
            from moldau.shell.broker.coordination.transaction_port import LocalTransactionPort
            from moldau.shell.broker.coordination.transactions import TransactionCoordinators

            log = self._partitions, self._partitions.flusher
            moved = self._high_watermark_moved
            own = LocalTransactionPort(
                self._node,
                *log,
                self._waits,
                moved,
                lambda *asked: self.groups.end_transaction(*asked),
                lambda asked: self.transactions.add_partitions(asked),
            )
            port = ClusterTransactionPort(self._node, self._partitions, own, self._others)
            self._transactions = TransactionCoordinators(
                self._node, *log, moved, self.topic_creation.create, self.producer_ids, own, port
            )
        return self._transactions

    @property
    def _memory_used_bytes(self) -> int:
        return 0 if self._groups is None else self._groups.member_memory.used_bytes

    # -- events of the broker

    def metadata_changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The partitions here have `delta` already."""
        if self._first_group_check is None and OFFSETS_TOPIC in image.topics_by_name:
            # offsets expire in idle groups too, so load every shard by then
            delay_s = self._node.settings.view.offsets_retention_check_interval_ms / 1000
            self._first_group_check = self._node.loop.call_later(delay_s, lambda: self.groups.all_shards())
        if self._groups is not None or (delta.deleted_topics and OFFSETS_TOPIC in image.topics_by_name):
            self.groups.metadata_changed(delta)
        if self._transactions is not None or any(place.topic == TRANSACTION_STATE_TOPIC for place in delta.partitions):
            # transactions of an earlier coordinator, or of an earlier life, expire also if no client asks
            self.transactions.metadata_changed(delta)

    def partition_committed(self, partition: Partition) -> None:
        """The high watermark of this partition has moved."""
        if self._groups is not None:
            self._groups.partition_committed(partition)
        if self._transactions is not None:
            self._transactions.partition_committed(partition)

    def directory_failed(self) -> None:
        """The partitions in a failed log directory are offline."""
        if self._groups is not None:
            self._groups.directory_failed()
        if self._transactions is not None:
            self._transactions.directory_failed()

    def stop(self) -> None:
        """Ends all coordinators. Their clients look for a coordinator again."""
        if self._first_group_check is not None:
            self._first_group_check.cancel()
        if self._groups is not None:
            self._groups.close(kafka_error("NOT_COORDINATOR"))
        if self._transactions is not None:
            self._transactions.close(kafka_error("NOT_COORDINATOR"))
