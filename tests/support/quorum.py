"""A quorum role on its ports, and requests to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.metadata.features import REGISTERED_FEATURES
from moldau.core.metadata.image import BrokerListener
from moldau.errors import InvariantError
from moldau.ports import Workers
from moldau.shell.broker.cluster.life_cycle import LifeCycle
from moldau.shell.io.simulated.clock import ManualClock
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.io.simulated.workers import InlineWorkers
from moldau.shell.network.event_log import EventLog
from moldau.shell.network.node_parts import NodeFailures, NodeParts
from moldau.shell.network.pauses import Pauses
from moldau.shell.node.storage_format import format_directory, read_meta_properties
from moldau.shell.quorum.role import QuorumRole, VoterIdentity
from moldau.telemetry import Telemetry
from moldau.transport.network import TcpNetwork
from moldau.types import BrokerId, Uuid
from moldau.wire.protocol.messages.broker_lifecycle import BrokerRegistrationRequest, RegisteredListener
from moldau.wire.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

T = TypeVar("T")

NODE = BrokerId(1)

CONTROLLER = BrokerListener("CONTROLLER", "127.0.0.1", 9093)

METADATA_LOG = "__cluster_metadata-0/00000000000000000000.log"


class GatedWorkers:
    """The Workers port that works only while its gate is open."""

    def __init__(self, *, is_open: bool = False) -> None:
        self.gate = asyncio.Event()
        if is_open:
            self.gate.set()
        self.runs = 0

    async def run(self, work: Callable[[], T]) -> T:
        await self.gate.wait()
        self.runs += 1
        return work()

    async def drain(self) -> None:
        """Nothing to do: no caller of a test is cancelled."""

    def close(self) -> None:
        """Nothing to close."""


class Node:
    """A formatted directory and the role on it; `restart` makes a new role on the same disk."""

    def __init__(self, **settings: str) -> None:
        self.settings = parse_broker_settings({name.replace("_", "."): text for name, text in settings.items()})
        self.disk = MemoryDisk()
        self.clock = ManualClock()
        self.random = SeededRandom(11)
        if read_meta_properties(self.disk) is None:
            format_directory(
                self.disk, self.random, now_ms=self.clock.now_ms(), node_id=NODE, controller_listener=CONTROLLER
            )
        self.broker_epoch = -1
        self.broken: list[InvariantError] = []

    def parts(self, workers: Workers | None = None) -> NodeParts:
        loop = asyncio.get_running_loop()
        ports = self.clock, self.random, self.disk, workers or InlineWorkers(), TcpNetwork()
        return NodeParts(*ports, loop, Pauses(loop, None), Telemetry(1_000), EventLog(self.clock))

    async def start(self, workers: Workers | None = None) -> QuorumRole:
        properties = read_meta_properties(self.disk)
        assert properties is not None
        role = QuorumRole(
            identity=VoterIdentity(NODE, properties.cluster_id, properties.directory_id, (CONTROLLER,)),
            settings=self.settings,
            node=self.parts(workers),
            failures=NodeFailures(self.broken.append, lambda: None),
        )
        await role.start()
        return role

    async def start_with_broker(self, workers: Workers | None = None) -> QuorumRole:
        role = await self.start(workers)
        await self.start_broker(role)
        return role

    async def start_broker(self, role: QuorumRole) -> None:
        properties = read_meta_properties(self.disk)
        assert properties is not None
        registration = BrokerRegistrationRequest(
            NODE,
            properties.cluster_id,
            Uuid(self.random.random_bytes(16)),
            listeners=(RegisteredListener("PLAINTEXT", "127.0.0.1", 9092),),
            features=REGISTERED_FEATURES,
            log_dirs=(properties.directory_id,),
            previous_broker_epoch=self.broker_epoch,
        )
        self.broker_epoch = await LifeCycle(NODE, role).start(registration)

    async def shut_down_broker(self, role: QuorumRole) -> None:
        await LifeCycle(NODE, role).shut_down(self.broker_epoch)


async def stop(role: QuorumRole) -> None:
    """Like a node that stops cleanly."""
    await role.settle()
    role.close()


async def turn() -> None:
    """Lets the loop run what is ready."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    loop.call_soon(done.set_result, None)
    await done


def create(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest(tuple(CreatableTopic(name, partitions, 1) for name in names), 1000)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await test()

    asyncio.run(main())


async def codes(role: QuorumRole, request: CreateTopicsRequest) -> list[int]:
    response = await role.submit(request)
    assert isinstance(response, CreateTopicsResponse)
    return [topic.error_code for topic in response.topics]


async def grow(role: QuorumRole, prefix: str, count: int) -> None:
    for number in range(count):
        assert await codes(role, create(f"{prefix}{number}")) == [0]
        for _ in range(20):  # lets the writer continue between two requests
            await turn()
