"""Several real brokers on the simulated network, each with its own disk, and a controller in the test's hands.

The controller is outside of all processes: it never fails, decides at once, and its decisions reach each broker some
milliseconds later, in order. It has only what brokers need: registrations, in-sync replicas, elections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from msgspec.structs import replace

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.controller.directories import assign_directories
from moldau.core.log.directories.directories import LogDirectories
from moldau.core.log.directories.directory import LogDirectory
from moldau.core.metadata.fold import merge_partition
from moldau.core.metadata.image import (
    NO_LEADER,
    BrokerImage,
    BrokerListener,
    ConfigResource,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from moldau.core.replication.partition import Partition
from moldau.errors import ERROR_CODES, InvariantError
from moldau.shell.broker.handlers.table import handler_specs
from moldau.shell.broker.logs.housekeeping import Housekeeping
from moldau.shell.broker.logs.log_settings import LogSettingsByOverrides
from moldau.shell.broker.role import Broker, BrokerMemory
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.network.bounds import RequestMemory, ResponseMemory
from moldau.shell.network.connection_group import ConnectionGroup
from moldau.shell.network.dispatch import Dispatcher
from moldau.shell.network.node_parts import NodeFailures, NodeParts
from moldau.shell.network.pauses import Pauses
from moldau.shell.node.admission import connection_limits, new_admission
from moldau.shell.node.ports import NodePorts
from moldau.shell.peers.peer import NoAnswerError, Peer
from moldau.simulation.host_network import HostNetwork
from moldau.simulation.loop import ProcessKilledError, VirtualLoop, virtual_loop
from moldau.simulation.machine import Machine
from moldau.simulation.surroundings import SimulatedEventLog, Surroundings
from moldau.simulation.violation import ViolationError
from moldau.simulation.workers import SimulatedWorkers, WorkerWeather
from moldau.telemetry import Telemetry
from moldau.types import BrokerId, LeaderEpoch, Offset, TopicPartition, Uuid
from moldau.wire.protocol.messages.broker_lifecycle import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from moldau.wire.protocol.messages.in_sync_replicas import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ProposedPartition,
)
from moldau.wire.protocol.messages.metadata_records import PartitionChangeRecord
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.protocol.messages.producer_ids import AllocateProducerIdsResponse
from moldau.wire.records.builder import build_batch
from tests.support.logs import records_in

PORT = 9092
PATIENCE_S = 60.0
SETTINGS = {"replica.lag.time.max.ms": "1000", "replica.fetch.backoff.ms": "100"}


def directory_of(broker_id: int) -> Uuid:
    """The id of a broker's only log directory."""
    return Uuid((1_000 + broker_id).to_bytes(16, "big"))


class Controller:
    """See the head of this module."""

    def __init__(self, around: Surroundings) -> None:
        self.image = MetadataImage("cluster")
        self.machines: dict[int, BrokerMachine] = {}
        self._around = around
        self._random = around.random_of("controller")
        self._next_epoch = 100

    # -- requests of tests and brokers

    def create_topic(self, name: str, *replicas: tuple[int, ...], **configs: str) -> None:
        """`replicas`: of each partition, all in sync, the first one leads."""
        topic_id = Uuid((1_000 + len(self.image.topics_by_id)).to_bytes(16, "big"))
        partitions = {
            index: PartitionImage(each, each, BrokerId(each[0]), LeaderEpoch(0), 0, tuple(map(directory_of, each)))
            for index, each in enumerate(replicas)
        }
        delta = self._delta({topic_id: TopicImage(name, topic_id, partitions)})
        if configs:
            texts = {key.replace("_", "."): value for key, value in configs.items()}
            delta.configs[ConfigResource(ResourceType.TOPIC, name)] = texts
        self.publish(delta)

    def partition(self, name: str = "t", index: int = 0) -> PartitionImage:
        return self.image.topics_by_name[name].partitions[index]

    def change(self, name: str = "t", index: int = 0, **fields: Any) -> None:
        """One change of one partition."""
        topic = self.image.topics_by_name[name]
        old = topic.partitions[index]
        if "replicas" in fields:
            fields["directories"] = tuple(map(directory_of, fields["replicas"]))
        changed = replace(old, partition_epoch=old.partition_epoch + 1, **fields)
        if changed.leader != old.leader:
            changed = replace(changed, leader_epoch=LeaderEpoch(old.leader_epoch + 1))
        self._put(topic, index, changed)

    def _put(self, topic: TopicImage, index: int, changed: PartitionImage) -> None:
        partitions = {**topic.partitions, index: changed}
        delta = self._delta({topic.topic_id: replace(topic, partitions=partitions)})
        delta.partitions = {TopicPartition(topic.name, index): changed}
        self.publish(delta)

    def register(self, broker_id: int) -> int:
        """A new life of the broker: its replicas are no longer in sync, unless no other replica is."""
        self.fence(broker_id)
        self._next_epoch += 1
        listener = BrokerListener("PLAINTEXT", f"broker-{broker_id}", PORT)
        incarnation = Uuid(self._next_epoch.to_bytes(16, "big"))
        broker = BrokerImage(
            BrokerId(broker_id),
            self._next_epoch,
            incarnation,
            (listener,),
            is_fenced=False,
            log_directories=(directory_of(broker_id),),
        )
        self.publish(MetadataDelta(end_offset=self.image.end_offset, brokers={broker_id: broker}))
        for name, index, each in self._partitions():
            if each.leader == NO_LEADER and broker_id in each.isr:
                self.change(name, index, leader=BrokerId(broker_id))
        return self._next_epoch

    def fence(self, broker_id: int) -> None:
        """Fences the broker: it leads no partition, and stays in sync only if no other replica is."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.is_fenced:
            return
        fenced = replace(broker, is_fenced=True)
        self.publish(MetadataDelta(end_offset=self.image.end_offset, brokers={broker_id: fenced}))
        for name, index, each in self._partitions():
            if broker_id not in each.isr:
                continue
            isr = tuple(replica for replica in each.isr if replica != broker_id) or each.isr
            leader = each.leader
            if leader == broker_id:
                leader = next((BrokerId(one) for one in isr if self._is_active(one)), NO_LEADER)
            self.change(name, index, isr=isr, leader=leader)

    async def submit(self, broker_id: int, request: Any) -> Any:
        """A broker's request, over a network that takes some milliseconds in each direction."""
        await asyncio.sleep(self._delay_s())
        answer = self._answer(broker_id, request)
        await asyncio.sleep(self._delay_s())
        return answer

    # -- decisions

    def _is_active(self, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def _partitions(self) -> list[tuple[str, int, PartitionImage]]:
        return [
            (topic.name, index, partition)
            for topic in self.image.topics_by_id.values()
            for index, partition in topic.partitions.items()
        ]

    def _answer(self, broker_id: int, request: Any) -> Any:
        if isinstance(request, AlterPartitionRequest):
            return self._alter(broker_id, request)
        if isinstance(request, AssignReplicasToDirsRequest):
            return self._assign(request)
        self._next_epoch += 1_000
        return AllocateProducerIdsResponse(producer_id_start=self._next_epoch, producer_id_len=1_000)

    def _assign(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        """As the real controller decides it."""
        records, answer = assign_directories(self.image, parse_broker_settings({}), request)
        for record in records:
            assert isinstance(record, PartitionChangeRecord)
            topic = self.image.topics_by_id[record.topic_id]
            changed = merge_partition(topic.partitions[record.partition_id], record)
            self._put(topic, record.partition_id, changed)
        return answer

    def _alter(self, broker_id: int, request: AlterPartitionRequest) -> AlterPartitionResponse:
        if self.image.brokers[broker_id].epoch != request.broker_epoch:
            return AlterPartitionResponse(error_code=ERROR_CODES["STALE_BROKER_EPOCH"])
        topics = []
        for topic in request.topics:
            name = self.image.topics_by_id[topic.topic_id].name
            rows = tuple(self._alter_one(broker_id, name, row) for row in topic.partitions)
            topics.append(AlteredTopic(topic.topic_id, rows))
        return AlterPartitionResponse(topics=tuple(topics))

    def _alter_one(self, broker_id: int, name: str, row: ProposedPartition) -> AlteredPartition:
        old = self.partition(name, row.partition_index)
        error = ""
        if old.leader != broker_id or old.leader_epoch != row.leader_epoch:
            error = "FENCED_LEADER_EPOCH"
        elif old.partition_epoch != row.partition_epoch:
            error = "INVALID_UPDATE_VERSION"
        elif not all(
            self._is_active(one.broker_id) and self.image.brokers[one.broker_id].epoch == one.broker_epoch
            for one in row.new_isr_with_epochs
        ):
            error = "INELIGIBLE_REPLICA"
        if error:
            return AlteredPartition(row.partition_index, ERROR_CODES[error])
        self.change(name, row.partition_index, isr=tuple(one.broker_id for one in row.new_isr_with_epochs))
        new = self.partition(name, row.partition_index)
        return AlteredPartition(row.partition_index, 0, new.leader, new.leader_epoch, new.isr, 0, new.partition_epoch)

    # -- news for brokers

    def _delta(self, topics: dict[Uuid, TopicImage | None]) -> MetadataDelta:
        partitions = {
            TopicPartition(topic.name, index): partition
            for topic in topics.values()
            if topic is not None
            for index, partition in topic.partitions.items()
        }
        return MetadataDelta(end_offset=Offset(self.image.end_offset + 1), topics=topics, partitions=partitions)

    def publish(self, delta: MetadataDelta) -> None:
        """Sends it to every broker."""
        self.image.apply_delta(delta)
        for machine in self.machines.values():
            machine.hear(delta, self._delay_s())

    def _delay_s(self) -> float:
        return 0.001 + self._random.random() * 0.01


class OwnController:
    """The controller as one broker reaches it."""

    def __init__(self, controller: Controller, broker_id: int) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self.kraft_version = 0

    async def submit(self, request: Any, *, timeout_ms: int | None = None) -> Any:
        return await self._controller.submit(self._broker_id, request)

    def describe(self) -> Any:
        raise NotImplementedError


class BrokerMachine(Machine):
    """A machine on which brokers run, one after the other."""

    def __init__(self, around: Surroundings, controller: Controller, broker_id: int, settings: dict[str, str]) -> None:
        super().__init__(around, f"broker-{broker_id}", [MemoryDisk()])
        self.broker_id = broker_id
        self.controller = controller
        controller.machines[broker_id] = self
        self.settings = parse_broker_settings(
            {"node.id": str(broker_id), "listeners": f"PLAINTEXT://{self.host}:{PORT}", **SETTINGS, **settings}
        )
        self.broker: Broker | None = None
        self._image: MetadataImage | None = None
        self._heard_s = 0.0
        self.workers: SimulatedWorkers | None = None

    async def start(self) -> None:
        """Recovers, listens, registers. Returns once the controller knows it."""
        process = self.begin_process()
        task = self.around.loop.run_in_process(process, self._serve())
        death = asyncio.ensure_future(self._end())
        await asyncio.wait((task, death), timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        death.cancel()
        if task.done() and (error := task.exception()) is not None and not isinstance(error, ProcessKilledError):
            raise error

    async def _end(self) -> None:
        await self.died.wait()

    async def _serve(self) -> None:
        around, loop, settings = self.around, self.around.loop, self.settings
        assert self.process is not None
        random = around.random_of(f"{self.process.name}/broker")
        self.workers = SimulatedWorkers(loop, self.process, random, WorkerWeather())
        log = SimulatedEventLog(around, self.clock, self.host)
        directory = LogDirectory.open(self.process_disks[0], directory_id=directory_of(self.broker_id), path=self.host)
        logs = LogDirectories([directory])
        image = self.controller.image.copy()
        settings_of = LogSettingsByOverrides(settings)
        for _ in logs.open_all(lambda topic: settings_of(image.topic_configs(topic)), self.clock.now_ms()):
            pass
        ports = NodePorts(
            self.clock, SeededRandom(random.getrandbits(64)), self.process_disks[0], self.workers,
            HostNetwork(around.network, self.host),
        )  # fmt: skip
        telemetry = Telemetry(settings.moldau_metric_series)
        own = self.clock, ports.random, ports.disk, self.workers, ports.network
        node = NodeParts(*own, loop, Pauses(loop, None), telemetry, log)
        memory = ResponseMemory(settings.moldau_response_memory_bytes, telemetry)
        broker = Broker(
            settings=settings,
            node_id=BrokerId(self.broker_id),
            node=node,
            logs=logs,
            controller=OwnController(self.controller, self.broker_id),
            memory=BrokerMemory(memory, 1 << 32),
            failures=NodeFailures(self._broken, lambda: None),
        )
        requests = RequestMemory(1 << 28, telemetry)
        admission = new_admission(settings, ports, log, telemetry)
        group = ConnectionGroup(loop, connection_limits(settings), requests, memory, log, telemetry, admission)
        await ports.network.listen(self.host, PORT, partial(group.new_connection, "PLAINTEXT"))
        group.open(Dispatcher(broker, handler_specs(), node, requests, on_invariant_broken=self._broken))
        housekeeping = Housekeeping(broker.own_node, broker.partitions, broker.moves)
        housekeeping.start()
        self.broker = broker
        await asyncio.sleep(0.005)
        broker_epoch = self.controller.register(self.broker_id)
        self._image = self.controller.image.copy()
        broker.registered(broker_epoch)
        broker.metadata_changed(self._image, self._image.as_delta())

    def _broken(self, error: InvariantError) -> None:
        self.around.violate(ViolationError("invariants hold", str(error)))

    def hear(self, delta: MetadataDelta, delay_s: float) -> None:
        """The controller's news, in order."""
        broker, image, process = self.broker, self._image, self.process
        if broker is None or image is None or process is None or process.is_dead:
            return

        def take() -> None:
            image.apply_delta(delta)
            broker.metadata_changed(image, delta)

        self._heard_s = max(self._heard_s + 0.000_1, self.around.loop.time() + delay_s)
        self.around.loop.call_at(self._heard_s, take, context=process.context)

    def _dropped(self) -> None:
        if self.broker is not None:
            self.around.loop.graveyard.append(self.broker)
        self.broker = self._image = None
        if self.workers is not None:
            self.workers.close()

    def has_topic(self, topic: str) -> bool:
        return self.broker is not None and topic.encode() in self.broker.partitions.by_name

    def leads(self, topic: str = "t", index: int = 0) -> bool:
        return self.has_topic(topic) and self.replica(topic, index).leader is not None

    def stand_still(self) -> None:
        """Like SIGSTOP."""
        assert self.process is not None
        self.around.loop.pause(self.process)

    def go_on(self) -> None:
        assert self.process is not None
        self.around.loop.resume(self.process)

    def replica(self, topic: str = "t", index: int = 0) -> Partition:
        assert self.broker is not None
        return self.broker.partitions.find(topic, index)

    def values(self, topic: str = "t", index: int = 0) -> list[bytes | None]:
        """Of all records in the log."""
        return [record.value for record in records_in(self.replica(topic, index).log)]


class Brokers:
    """All of it: `machines` by broker id, from 1 on."""

    def __init__(self, seed: int, loop: VirtualLoop, count: int, settings: dict[str, str]) -> None:
        self.around = Surroundings(seed, loop, None)
        self.controller = Controller(self.around)
        self.machines = {one: BrokerMachine(self.around, self.controller, one, settings) for one in range(1, count + 1)}
        self._peers: dict[tuple[int, str], Peer] = {}

    async def start(self) -> None:
        for machine in self.machines.values():
            await machine.start()

    def random_of(self, name: str) -> Random:
        return self.around.random_of(name)

    def peer(self, broker_id: int, host: str = "client") -> Peer:
        """A client's connection."""
        return Peer(BrokerListener("PLAINTEXT", f"broker-{broker_id}", PORT), HostNetwork(self.around.network, host))

    async def ask(self, broker_id: int, request: Any) -> Any:
        """The response, on a connection for only this request."""
        peer = self.peer(broker_id)
        try:
            return await peer.request(request, 30_000)
        finally:
            peer.close()

    def leader(self, topic: str = "t", index: int = 0) -> BrokerMachine:
        return self.machines[self.controller.partition(topic, index).leader]

    async def produce(
        self,
        broker_id: int,
        *values: bytes,
        topic: str = "t",
        acks: int = -1,
        timeout_ms: int = 30_000,
        by: str = "client",
        transactional_id: str | None = None,
        **batch: Any,
    ) -> int:
        """The error code of the response; -1 if none comes. Each client has one connection."""
        peer = self._peers.setdefault((broker_id, by), self.peer(broker_id, by))
        records = build_batch([(None, value, self.machines[1].clock.now_ms(), ()) for value in values], **batch)
        topic_id = self.controller.image.topic_id(topic)
        data = TopicProduceData(topic, topic_id, (PartitionProduceData(0, records),))
        try:
            answer = await peer.request(
                ProduceRequest(transactional_id, acks, timeout_ms=timeout_ms, topic_data=(data,)), timeout_ms + 1_000
            )
        except NoAnswerError:
            return -1
        return answer.responses[0].partition_responses[0].error_code

    async def pass_time(self, duration_s: float) -> None:
        """On the virtual clock."""
        await asyncio.sleep(duration_s)

    async def until(self, is_so: Callable[[], bool], what: str = "") -> None:
        """Waits in virtual time."""
        end_s = self.around.loop.time() + PATIENCE_S
        while not is_so():
            assert self.around.loop.time() < end_s, f"not within {PATIENCE_S} s: {what}"
            await asyncio.sleep(0.01)

    def is_joined(self, topic: str = "t", index: int = 0) -> bool:
        """Whether all replicas are in sync."""
        image = self.controller.partition(topic, index)
        return set(image.isr) == set(image.replicas) and image.leader != NO_LEADER

    def is_whole(self, topic: str = "t", index: int = 0) -> bool:
        """Whether all replicas are in sync, and know that everything is committed."""
        image = self.controller.partition(topic, index)
        if not self.is_joined(topic, index):
            return False
        positions = []
        for one in image.replicas:
            broker = self.machines[one].broker
            if broker is None or topic.encode() not in broker.partitions.by_name:
                return False
            positions.append(self.machines[one].replica(topic, index).position)
        ends = {position.log_end_offset for position in positions}
        return len(ends) == 1 and all(one.high_watermark == one.log_end_offset for one in positions)


def run_brokers(
    story: Callable[[Brokers], Any], count: int = 2, seed: int = 7, settings: dict[str, str] | None = None
) -> None:
    """Runs `story` with `count` started brokers. Raises its errors, and ViolationError."""
    with virtual_loop() as loop:
        brokers = Brokers(seed, loop, count, settings or {})

        async def tell() -> None:
            await brokers.start()
            await story(brokers)

        violation = loop.run_until_complete(brokers.around.first_violation(tell()))
    if violation is not None:
        raise violation
