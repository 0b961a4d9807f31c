"""Three nodes of one quorum, each a role on its own disk with a controller listener, on any network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from moldau.core.config.broker_settings import BrokerSettings, parse_broker_settings
from moldau.core.config.listeners import Endpoint as ListenEndpoint
from moldau.core.metadata.image import BrokerListener
from moldau.core.raft.voters import VoterSet, configured_voters
from moldau.errors import InvariantError
from moldau.ports import Clock
from moldau.shell.administration.table import controller_specs
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.io.simulated.workers import InlineWorkers
from moldau.shell.network.dispatch import Dispatcher
from moldau.shell.network.event_log import EventLog
from moldau.shell.network.node_parts import NodeFailures, NodeParts
from moldau.shell.network.pauses import Pauses
from moldau.shell.node.admission import connection_limits, new_admission
from moldau.shell.node.controller_listener import ControllerListener
from moldau.shell.node.ports import NodePorts
from moldau.shell.node.storage_format import format_directory, read_meta_properties
from moldau.shell.quorum.administered import AdministeredController
from moldau.shell.quorum.handlers.table import handler_specs
from moldau.shell.quorum.role import QuorumRole, VoterIdentity
from moldau.telemetry import Telemetry
from moldau.transport.network import Network
from moldau.types import BrokerId
from moldau.wire.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterQuotaEntity,
    AlterQuotaEntry,
    AlterQuotaOperation,
)
from moldau.wire.protocol.messages.raft_records import Endpoint, VotersRecordVoter

NODE_IDS = (1, 2, 3)
CLUSTER_ID = "tBkDQh1jQTWVvPkPqJ9o1w"
LISTENER = "CONTROLLER"


class QuorumNode:
    """One node. `start` begins a new life on the same disk; `die` ends it like kill -9. `disk_seed`: another seed is
    another disk, with another directory id."""

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        network: Network,
        settings: BrokerSettings,
        initial_controllers: tuple[VotersRecordVoter, ...] = (),
        disk_seed: int = 0,
    ) -> None:
        self.node_id = BrokerId(node_id)
        self.clock = clock
        self.disk = MemoryDisk()
        self.settings = settings
        self.broken: list[InvariantError] = []
        self.address: BrokerListener
        self.role: QuorumRole
        self.starting: asyncio.Task[None]
        self._network = network
        self._lives = 0
        self._listener: ControllerListener
        format_directory(
            self.disk,
            SeededRandom(100 * disk_seed + node_id),
            now_ms=clock.now_ms(),
            node_id=self.node_id,
            controller_listener=BrokerListener(LISTENER, "", 0),
            cluster_id=CLUSTER_ID,
            initial_controllers=initial_controllers,
        )

    async def listen(self, host: str, port: int) -> None:
        """Binds its address; it does not answer yet."""
        log, telemetry = EventLog(self.clock), Telemetry(1_000)
        self._lives += 1
        random = SeededRandom(100 * self.node_id + self._lives)
        ports = NodePorts(self.clock, random, self.disk, InlineWorkers(), self._network)
        admission = new_admission(self.settings, ports, log, telemetry)
        self._listener = ControllerListener(connection_limits(self.settings), admission, log, telemetry)
        port = await self._listener.open(self._network, ListenEndpoint(LISTENER, host, port))
        self.address = BrokerListener(LISTENER, host, port)
        self._random = random

    def start(self, voters: VoterSet | None) -> None:
        """Starts with these configured voters; `starting` is done when the role knows the cluster."""
        properties = read_meta_properties(self.disk)
        assert properties is not None
        loop = asyncio.get_running_loop()
        ports = self.clock, self._random, self.disk, InlineWorkers(), self._network
        node = NodeParts(*ports, loop, Pauses(loop, None), Telemetry(1_000), EventLog(self.clock))
        self.role = QuorumRole(
            identity=VoterIdentity(self.node_id, CLUSTER_ID, properties.directory_id, (self.address,)),
            settings=self.settings,
            node=node,
            failures=NodeFailures(self.broken.append, lambda: None),
            configured=voters,
        )
        self.dispatcher = dispatcher = Dispatcher(
            self.role,
            handler_specs(),
            node,
            self._listener.request_memory,
            on_invariant_broken=self.broken.append,
        )
        dispatcher.serve(AdministeredController(self.role, self.settings), controller_specs())
        self._listener.serve(dispatcher)
        self.starting = asyncio.ensure_future(self.role.start())

    async def stop(self) -> None:
        await self.role.settle()
        self.role.close()
        self._listener.close()

    def die(self, power_lost: SeededRandom | None = None) -> None:
        """`power_lost`: its machine loses power, and unflushed data with it."""
        self.starting.cancel()
        self.role.abort()
        self._listener.abort()
        if power_lost is None:
            self.disk.crash_process()
        else:
            self.disk.crash_machine(power_lost)


class QuorumOfThree:
    """`network_of`: the Network port of a node; `host_of`: where it listens (port 0: any)."""

    def __init__(
        self,
        clock: Clock,
        network_of: Callable[[int], Network],
        host_of: Callable[[int], tuple[str, int]],
        **settings: str,
    ) -> None:
        texts = {name.replace("_", "."): text for name, text in settings.items()}
        self._host_of = host_of
        self.nodes = {
            node_id: QuorumNode(
                node_id, clock, network_of(node_id), parse_broker_settings({**texts, "node.id": str(node_id)})
            )
            for node_id in NODE_IDS
        }
        self.voters: VoterSet

    async def start(self, *node_ids: int) -> None:
        """Starts all of them, or these. They bind all addresses first: a voter must be known before requests to it."""
        for node_id in node_ids or NODE_IDS:
            node = self.nodes[node_id]
            await node.listen(*(self._host_of(node_id) if not hasattr(node, "address") else _place(node)))
        endpoints = {
            node_id: Endpoint(LISTENER, node.address.host, node.address.port) for node_id, node in self.nodes.items()
        }
        self.voters = configured_voters(NODE_IDS, endpoints)
        for node_id in node_ids or NODE_IDS:
            self.nodes[node_id].start(self.voters)

    def leaders(self) -> list[QuorumNode]:
        return [node for node in self.nodes.values() if hasattr(node, "role") and node.role.is_leader]


def _place(node: QuorumNode) -> tuple[str, int]:
    return node.address.host, node.address.port


def quota(user: str, value: float) -> AlterClientQuotasRequest:
    """A change that the metadata log accepts from any active controller."""
    entry = AlterQuotaEntry((AlterQuotaEntity("user", user),), (AlterQuotaOperation("producer_byte_rate", value),))
    return AlterClientQuotasRequest((entry,))


def quotas_of(role: QuorumRole) -> dict[str, float]:
    """By user: the committed quotas in this node's view."""
    found = {}
    for ((_, user),), values in role.image.client_quotas.items():
        found[str(user)] = values["producer_byte_rate"]
    return found
