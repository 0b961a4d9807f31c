"""The broker of a node: creates its parts, and passes events of the whole broker to them.

Handlers get the broker, and find its parts here. A part knows only the parts in its constructor. The quorum supplies
the metadata, and takes the broker's requests to the controller. The broker runs on one loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.metadata.image import MetadataDelta, MetadataImage
from moldau.core.replication.partition import Partition
from moldau.errors import InvariantError, KafkaError, kafka_error
from moldau.shell.broker.cluster.addresses import BrokerAddresses
from moldau.shell.broker.cluster.announcements import announce
from moldau.shell.broker.cluster.directory_reports import DirectoryReports
from moldau.shell.broker.cluster.other_brokers import OtherBrokers
from moldau.shell.broker.cluster.topic_creation import ProducerIds, TopicCreation
from moldau.shell.broker.coordination.coordination import Coordination
from moldau.shell.broker.dynamic_settings import DynamicSettings
from moldau.shell.broker.fetches import Fetches
from moldau.shell.broker.logs.checkpoints import Checkpoints
from moldau.shell.broker.logs.flusher import Flusher
from moldau.shell.broker.logs.full_directories import FullDirectories
from moldau.shell.broker.logs.moves import ReplicaMoves
from moldau.shell.broker.logs.offline_directories import OfflineDirectories
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.broker.partitions import Partitions, StoredPartitions
from moldau.shell.broker.quotas import BrokerQuotas
from moldau.shell.broker.replicas.replication import Replication
from moldau.shell.broker.waits import PartitionWaits
from moldau.shell.network.background import BackgroundTasks
from moldau.shell.network.bounds import ResponseMemory
from moldau.shell.network.node_parts import NodeFailures, NodeParts
from moldau.types import BrokerId, TopicPartition, Uuid

if TYPE_CHECKING:
    from moldau.core.log.directories.directories import LogDirectories
    from moldau.shell.broker.cluster.controller_channel import Client
    from moldau.wire.protocol.messages.cluster import DescribeQuorumResponse
from moldau.wire.protocol.messages.producer_ids import AllocateProducerIdsResponse

MAX_REWRITES = 2
"""A batch may expand to 128 MiB. Handling this many at once bounds the memory, however many connections send such
batches."""
PRODUCER_IDS_TIMEOUT_MS = 5_000
"""How long a client waits for a producer id if the controller is not reached."""


class Controller(Protocol):
    """The active controller, as the broker uses it."""

    async def submit(self, request: Any, client: Client | None = None, *, timeout_ms: int | None = None) -> Any:
        """The controller's answer, once its records are committed. `client`: the client for whom the broker asks; None:
        for itself. `timeout_ms`: how long to try another node. Raises KafkaError."""

    @property
    def kraft_version(self) -> int:
        """The finalized level of `kraft.version`, which the metadata lacks."""

    async def describe_quorum(self) -> DescribeQuorumResponse:
        """The leader's description, in the highest version. If no leader is reached, this node's own."""


class BrokerMemory(msgspec.Struct, frozen=True):
    """Memory limits of a broker."""

    responses: ResponseMemory
    physical_bytes: int
    """A twentieth of it is for the members of groups."""


class Broker:
    """One per node. `image` is the metadata that this broker has acted on."""

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        node_id: BrokerId,
        node: NodeParts,
        logs: LogDirectories,
        controller: Controller,
        memory: BrokerMemory,
        failures: NodeFailures,
    ) -> None:
        self.node_id = node_id
        self.controller = controller
        self.image = MetadataImage()
        self.broker_epoch = -1
        self.incarnation_id = Uuid(node.random.random_bytes(16))
        self.fetches = Fetches(settings, node)
        self.rewrites = asyncio.Semaphore(MAX_REWRITES)
        """Held by each batch that is expanded to be read or recompressed."""
        self.response_memory = memory.responses
        self._tasks = BackgroundTasks(node.loop, node.log, failures.invariant_broken)
        self._lasting_tasks = BackgroundTasks(node.loop, node.log, failures.invariant_broken)
        self.own_node = own_node = OwnNode(
            **msgspec.structs.asdict(node),
            node_id=node_id,
            settings=DynamicSettings(settings, node.log),
            spawn=self._tasks.spawn,
            spawn_lasting=self.spawn_lasting,
            directory_failed=self.directory_failed,
            no_room=self.no_room,
        )
        self.addresses = BrokerAddresses(node_id, settings)
        self.waits = PartitionWaits(node.loop)
        self.quotas = BrokerQuotas(settings, node.clock)
        self.others = OtherBrokers(own_node, node.network)
        self._host_partitions(logs, failures)
        self.coordination = Coordination(
            own_node,
            self.partitions,
            self.waits,
            self.others,
            TopicCreation(own_node, self.submit, lambda: len(self.image.brokers)),
            ProducerIds(self._allocate_producer_ids),
            self.partition_appended,
            min(settings.moldau_group_memory_bytes, memory.physical_bytes // 20),
        )
        self._is_stopping = False

    def _host_partitions(self, logs: LogDirectories, failures: NodeFailures) -> None:
        node, submit, moved = self.own_node, self.controller.submit, self.partition_appended
        checkpoints = Checkpoints(node, logs)
        flusher = Flusher(node, checkpoints, moved)
        self._directory_reports = reports = DirectoryReports(node, submit)
        self.replication = replication = Replication(
            node, logs, flusher, checkpoints, self.others, submit, moved, lambda cut: self.moves.log_cut(cut)
        )
        stored = StoredPartitions(logs, flusher, checkpoints)
        self.partitions = Partitions(node, stored, reports, self.waits, replication, moved)
        self.moves = ReplicaMoves(node, self.partitions)
        self.full_directories = FullDirectories(node, self.partitions, reports)

        def failed() -> None:
            self.coordination.directory_failed()
            failures.directory_failed()

        self.offline_directories = OfflineDirectories(node, self.partitions, self.waits.changed, failed)

    @property
    def settings(self) -> BrokerSettings:
        """The view in force. A changed setting replaces it, so do not keep it."""
        return self.own_node.settings.view

    # -- metadata

    def registered(self, broker_epoch: int) -> None:
        """The broker is registered under `broker_epoch`."""
        self.broker_epoch = broker_epoch
        self._directory_reports.registered(broker_epoch)
        self.replication.registered(broker_epoch)

    def metadata_changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The quorum committed `delta`; `image` holds it already."""
        self.image = image
        if delta.brokers:
            self.full_directories.brokers_changed(image)
        self.addresses.metadata_changed(image, delta)
        self.quotas.metadata_changed(image, delta)
        self.own_node.settings.apply(image, delta)
        self.others.metadata_changed(image, delta)
        self.partitions.apply(image, delta)
        if self.broker_epoch >= 0 and not self._is_stopping:
            # the end of a clean stop takes the leader from every partition, which is not logged
            announce(self.own_node.log, delta)
        self.coordination.metadata_changed(image, delta)

    # -- events from handlers and logs

    def partition_appended(self, partition: Partition) -> None:
        """The high watermark of `partition` moved: wakes its waiters."""
        self.partitions.touched[partition.number] = partition
        self.waits.changed(partition)
        self.coordination.partition_committed(partition)

    def no_room(self, place: TopicPartition) -> None:
        """Reports that there was no room for records of a partition."""
        self.full_directories.refused(place)

    def directory_failed(self) -> None:
        """A device failed: takes the partitions in its log directories offline until a restart (answered with 56)."""
        self.offline_directories.look()

    # -- asking the controller

    @property
    def static_settings(self) -> BrokerSettings:
        """The settings at the start of the node."""
        return self.own_node.settings.static

    async def submit(self, request: Any, client: Client | None = None) -> Any:
        """The controller's answer to a change of topics or configs, once it is committed. If this is the only broker,
        also waits until the partitions and logs here have the change. Raises KafkaError."""
        response = await self.controller.submit(request, client)
        if len(self.image.brokers) == 1:
            await self.partitions.wait_settled()
        return response

    async def _allocate_producer_ids(self) -> AllocateProducerIdsResponse:
        """Asks the controller for a block of producer ids. Raises KafkaError. As in Apache Kafka, a broker that does
        not reach the controller soon answers that it has no ids yet: the client may ask another broker."""
        from moldau.wire.protocol.messages.producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

        request = AllocateProducerIdsRequest(self.node_id, self.broker_epoch)
        try:
            answer = await self.controller.submit(request, timeout_ms=PRODUCER_IDS_TIMEOUT_MS)
        except KafkaError as error:
            if error.name != "REQUEST_TIMED_OUT":
                raise
            raise kafka_error("COORDINATOR_LOAD_IN_PROGRESS", str(error)) from error
        return cast(AllocateProducerIdsResponse, answer)

    # -- background work

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` on the loop. A broken invariant stops the node; any other error is logged."""
        self._tasks.spawn(work)

    def spawn_lasting(self, work: Coroutine[Any, Any, None]) -> None:
        """As `spawn`, for work that continues as long as it is needed."""
        self._lasting_tasks.spawn(work)

    @property
    def has_work(self) -> bool:
        """Whether spawned work still runs: for tests."""
        return bool(self._tasks)

    def stop(self) -> None:
        """Ends all work of this broker within this turn of the loop."""
        self._is_stopping = True
        self._tasks.cancel()
        self._lasting_tasks.cancel()
        self.replication.stop()
        self.others.close()
        self.coordination.stop()

    async def wait_ended(self) -> None:
        """After `stop`, waits until no started work still runs or writes files, on the loop or in a thread."""
        await self._tasks.wait()
        await self._lasting_tasks.wait()
        await self.own_node.workers.drain()

    def check(self) -> None:
        """Checks the cheap invariants, for tests."""
        for partition in self.partitions:
            if not partition.are_offsets_in_order:
                raise InvariantError(f"{partition.topic_partition}: offsets out of order")
