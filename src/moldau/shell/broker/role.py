"""The broker of a node: creates its parts, and passes events of the whole broker to them.

Handlers get the broker, and find its parts here. A part knows only the parts in its constructor. The quorum supplies
the metadata, and takes the broker's requests to the controller. The broker runs on one loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.listeners import is_wildcard
from moldau.core.config.topic_settings import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from moldau.core.metadata.image import MetadataDelta, MetadataImage
from moldau.core.replication.fetch_session import FetchSessions
from moldau.core.replication.partition import Partition
from moldau.errors import InvariantError, KafkaError, kafka_error
from moldau.shell.broker.cluster.announcements import announce
from moldau.shell.broker.cluster.directory_reports import DirectoryReports
from moldau.shell.broker.cluster.other_brokers import OtherBrokers
from moldau.shell.broker.cluster.topic_creation import ProducerIds, TopicCreation
from moldau.shell.broker.dynamic_settings import DynamicSettings
from moldau.shell.broker.fetch_turns import FetchTurns
from moldau.shell.broker.logs.checkpoints import Checkpoints
from moldau.shell.broker.logs.flusher import Flusher
from moldau.shell.broker.logs.full_directories import FullDirectories
from moldau.shell.broker.logs.moves import ReplicaMoves
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.broker.partitions import Partitions, StoredPartitions
from moldau.shell.broker.quotas import BrokerQuotas
from moldau.shell.broker.replicas.replication import Replication
from moldau.shell.broker.waits import PartitionWaits
from moldau.shell.network.background import BackgroundTasks
from moldau.shell.network.bounds import ResponseMemory
from moldau.shell.network.context import RequestContext
from moldau.shell.network.node_parts import NodeFailures, NodeLoop, RolePorts
from moldau.telemetry import Telemetry
from moldau.transport.network import Network
from moldau.types import BrokerId, TopicPartition, Uuid

if TYPE_CHECKING:
    from moldau.core.log.directories.directories import LogDirectories
    from moldau.core.log.directories.directory import LogDirectory
    from moldau.shell.broker.cluster.controller_channel import Client
    from moldau.shell.broker.coordination.groups import Coordinators
    from moldau.shell.broker.coordination.transactions import TransactionCoordinators
    from moldau.wire.protocol.messages.cluster import DescribeQuorumResponse
from moldau.wire.protocol.messages.producer_ids import AllocateProducerIdsResponse

MAX_REWRITES = 2
"""A batch may expand to 128 MiB. Handling this many at once bounds the memory, however many connections send such
batches."""
MAX_PLACES = 64
"""The most pairs of listener and own address for which the brokers' addresses are cached. Clients use one or two."""
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
        ports: RolePorts,
        shared: NodeLoop,
        logs: LogDirectories,
        controller: Controller,
        memory: BrokerMemory,
        failures: NodeFailures,
    ) -> None:
        self.node_id = node_id
        self._serving: dict[tuple[str, tuple[str, int]], dict[int, tuple[str, int]]] = {}
        """Results of `serving_brokers`, by listener and this broker's own address there."""
        self.loop = loop = shared.loop
        self.clock, self.random, self.disk, self.workers = ports.clock, ports.random, ports.disk, ports.workers
        self.pauses, self.telemetry, self.log = shared.pauses, shared.telemetry, shared.log
        random, telemetry, log = ports.random, shared.telemetry, shared.log
        self.controller = controller
        self.image = MetadataImage()
        self.broker_epoch = -1
        self.incarnation_id = Uuid(random.random_bytes(16))
        self.fetch_max_bytes = settings.fetch_max_bytes
        self.parked_fetches, self.max_parked_fetches = 0, settings.moldau_parked_fetches
        self.rewrites = asyncio.Semaphore(MAX_REWRITES)
        """Held by each batch that is expanded to be read or recompressed."""
        self.response_memory = memory.responses
        self.fetch_sessions = FetchSessions(
            settings.max_incremental_fetch_session_cache_slots,
            settings.moldau_fetch_session_memory_bytes,
            random.random_below,
            telemetry,
        )
        self._tasks = BackgroundTasks(loop, log, failures.invariant_broken)
        self._lasting_tasks = BackgroundTasks(loop, log, failures.invariant_broken)
        self.dynamic_settings = in_force = DynamicSettings(settings, log)
        spawn, spawn_lasting, failed = self._tasks.spawn, self.spawn_lasting, self.directory_failed
        parts = ports.clock, random, ports.workers, shared.pauses, telemetry, log
        node = self.own_node = OwnNode(node_id, in_force, loop, *parts, spawn, spawn_lasting, failed, self.no_room)
        self.touched: dict[int, Partition] = {}
        """Partitions with appends since housekeeping last found no work for them."""
        self.waits, self.fetch_turns = PartitionWaits(loop), FetchTurns(loop)
        self._host_partitions(logs, ports.network, controller)
        self.topic_creation = TopicCreation(node, self.submit, lambda: len(self.image.brokers))
        self.producer_ids = ProducerIds(self._allocate_producer_ids)
        self.quotas = BrokerQuotas(settings, ports.clock)
        self._offline_paths: dict[str, None] = {}
        self._on_directory_failed = failures.directory_failed
        self.group_memory_bytes = min(settings.moldau_group_memory_bytes, memory.physical_bytes // 20)
        """The most memory for the members of all groups."""
        self._enter_bounds(telemetry)
        self._coordinators: Coordinators | None = None
        self._transactions: TransactionCoordinators | None = None
        self._first_group_check: asyncio.TimerHandle | None = None
        self._is_stopping = False

    def _host_partitions(self, logs: LogDirectories, network: Network, controller: Controller) -> None:
        node, moved = self.own_node, self.partition_appended
        self.checkpoints = checkpoints = Checkpoints(node, logs)
        self.flusher = flusher = Flusher(node, checkpoints, moved)
        self._directory_reports = reports = DirectoryReports(node, controller.submit)
        self.others = OtherBrokers(node, network)
        self.replication = replication = Replication(
            node, logs, flusher, checkpoints, self.others, controller.submit, moved, lambda cut: self.moves.log_cut(cut)
        )
        self.partitions = Partitions(
            node,
            StoredPartitions(logs, flusher, checkpoints),
            reports,
            self.waits,
            replication,
            self.touched,
            moved,
        )
        self.moves = ReplicaMoves(node, self.partitions, flusher, checkpoints)
        self.full_directories = FullDirectories(node, self.partitions, reports)

    def _enter_bounds(self, telemetry: Telemetry) -> None:
        telemetry.held["moldau_parked_fetches"] = lambda: (self.parked_fetches, self.max_parked_fetches)
        telemetry.held["moldau_group_memory_bytes"] = lambda: (self.group_memory_used_bytes, self.group_memory_bytes)

    @property
    def settings(self) -> BrokerSettings:
        """The view in force. A changed setting replaces it, so do not keep it."""
        return self.dynamic_settings.view

    @property
    def coordinators(self) -> Coordinators:
        """The group coordinators. Created at first use: a broker without groups loads no code for them."""
        if self._coordinators is None:
            from moldau.shell.broker.coordination.groups import Coordinators

            self._coordinators = Coordinators(
                self.own_node,
                self.partitions,
                self.flusher,
                self.partition_appended,
                self.topic_creation.create,
                self.group_memory_bytes,
            )
        return self._coordinators

    @property
    def transactions(self) -> TransactionCoordinators:
        """The transaction coordinators. Created at first use, as `coordinators`."""
        if self._transactions is None:
            from moldau.shell.broker.coordination.cluster_transaction_port import ClusterTransactionPort
            from moldau.shell.broker.coordination.transaction_port import LocalTransactionPort
            from moldau.shell.broker.coordination.transactions import TransactionCoordinators

            log = self.partitions, self.flusher
            moved = self.partition_appended
            own = LocalTransactionPort(
                self.own_node,
                *log,
                self.waits,
                moved,
                lambda *asked: self.coordinators.end_transaction(*asked),
                lambda *asked, **how: self.transactions.add_partitions(*asked, **how),
            )
            port = ClusterTransactionPort(self.own_node, self.partitions, own, self.others)
            self._transactions = TransactionCoordinators(
                self.own_node, *log, moved, self.topic_creation.create, self.producer_ids, own, port
            )
        return self._transactions

    @property
    def group_memory_used_bytes(self) -> int:
        """The memory of the members of all groups; 0 until the coordinators exist."""
        return 0 if self._coordinators is None else self._coordinators.member_memory.used_bytes

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
            self._serving.clear()
            self.full_directories.brokers_changed(image)
        self.quotas.metadata_changed(image, delta)
        self.dynamic_settings.apply(image, delta)
        self.others.metadata_changed(image, delta)
        self.partitions.apply(image, delta)
        if self.broker_epoch >= 0 and not self._is_stopping:
            # the end of a clean stop takes the leader from every partition, which is not logged
            announce(self.log, delta)
        if self._first_group_check is None and OFFSETS_TOPIC in image.topics_by_name:
            # offsets expire in idle groups too, so load every shard by then
            delay_s = self.settings.offsets_retention_check_interval_ms / 1000
            self._first_group_check = self.loop.call_later(delay_s, lambda: self.coordinators.all_shards())
        if self._coordinators is not None or (delta.deleted_topics and OFFSETS_TOPIC in image.topics_by_name):
            self.coordinators.metadata_changed(delta)
        if self._transactions is not None or any(place.topic == TRANSACTION_STATE_TOPIC for place in delta.partitions):
            # transactions of an earlier coordinator, or of an earlier life, expire also if no client asks
            self.transactions.metadata_changed(delta)

    def address_for(self, context: RequestContext) -> tuple[str, int]:
        """The address of this broker for the client: the registered one, which the other brokers name too. A node that
        is alone, with a listener on every interface, gives its end of the client's connection."""
        listener = context.session.listener_name
        registered = self._registered_at(self.node_id, listener)
        if registered is None or (len(self.image.brokers) == 1 and listener in self._alone_everywhere):
            return context.local_address or ("localhost", 0)
        return registered

    @cached_property
    def _alone_everywhere(self) -> tuple[str, ...]:
        """The listeners on every interface without an advertised address; empty if the settings name another node."""
        settings = self.static_settings
        points = settings.registered_listeners if settings.is_alone else ()
        return tuple(point.name for point in points if is_wildcard(point.host))

    def address_of(self, broker_id: int, context: RequestContext) -> tuple[str, int] | None:
        """The address of a broker for the client, on the listener of the client's request. None: it has none there."""
        if broker_id == self.node_id:
            return self.address_for(context)
        return self._registered_at(broker_id, context.session.listener_name)

    def _registered_at(self, broker_id: int, listener_name: str) -> tuple[str, int] | None:
        registered = self.image.brokers.get(broker_id)
        if registered is None:
            return None
        return next(((point.host, point.port) for point in registered.listeners if point.name == listener_name), None)

    def serving_brokers(self, context: RequestContext) -> Mapping[int, tuple[str, int]]:
        """The addresses of the unfenced brokers that the client reaches, in order of the id. Always includes this
        broker, as it answers."""
        place = context.session.listener_name, self.address_for(context)
        found = self._serving.get(place)
        if found is None:
            if len(self._serving) >= MAX_PLACES:
                self._serving.clear()
            serving = {*(one.broker_id for one in self.image.brokers.values() if not one.is_fenced), self.node_id}
            addresses = ((broker_id, self.address_of(broker_id, context)) for broker_id in sorted(serving))
            found = {broker_id: address for broker_id, address in addresses if address is not None}
            self._serving[place] = found
        return found

    # -- events from handlers and logs

    def partition_appended(self, partition: Partition) -> None:
        """The high watermark of `partition` moved: wakes its waiters."""
        self.touched[partition.number] = partition
        self.waits.changed(partition)
        if self._coordinators is not None:
            self._coordinators.partition_committed(partition)
        if self._transactions is not None:
            self._transactions.partition_committed(partition)

    def no_room(self, place: TopicPartition) -> None:
        """Reports that there was no room for records of a partition."""
        self.full_directories.refused(place)

    @property
    def offline_directories(self) -> int:
        """The number of `log.dirs` that have failed or were not opened."""
        return len(self._offline_paths) + len(self.partitions.logs.unopened_paths)

    def directory_failed(self) -> None:
        """A device failed: takes the partitions in its log directories offline until a restart (answered with 56)."""
        for directory in self.partitions.logs:
            if directory.health.is_offline and directory.path not in self._offline_paths:
                self._offline_paths[directory.path] = None
                self._take_offline(directory)
                self._on_directory_failed()

    def _take_offline(self, directory: LogDirectory) -> None:
        self.telemetry.set("kafka.log:type=LogManager,name=OfflineLogDirectoryCount", self.offline_directories)
        reason = f"{directory.path} failed and is offline: {directory.health.failure}"
        self.log.error("log directory offline", f"node {self.node_id}: {reason}")
        for partition in self.partitions:
            if partition.log.health is directory.health:
                partition.take_offline()
                self.waits.changed(partition)
                self.flusher.fail(partition, kafka_error("KAFKA_STORAGE_ERROR"))
        if self._coordinators is not None:
            self._coordinators.directory_failed()
        if self._transactions is not None:
            self._transactions.directory_failed()

    # -- asking the controller

    @property
    def static_settings(self) -> BrokerSettings:
        """The settings at the start of the node."""
        return self.dynamic_settings.static

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
        if self._first_group_check is not None:
            self._first_group_check.cancel()
        if self._coordinators is not None:
            self._coordinators.close(kafka_error("NOT_COORDINATOR"))
        if self._transactions is not None:
            self._transactions.close(kafka_error("NOT_COORDINATOR"))

    async def wait_ended(self) -> None:
        """After `stop`, waits until no started work still runs or writes files, on the loop or in a thread."""
        await self._tasks.wait()
        await self._lasting_tasks.wait()
        await self.workers.drain()

    def check(self) -> None:
        """Checks the cheap invariants, for tests."""
        for partition in self.partitions:
            if not partition.are_offsets_in_order:
                raise InvariantError(f"{partition.topic_partition}: offsets out of order")
