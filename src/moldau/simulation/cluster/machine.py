"""A machine of a cluster. It is formatted in advance, and restarts its process after each end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

from moldau.core.metadata.image import BrokerListener
from moldau.core.metadata.random_uuid import random_uuid
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.node.storage_format import format_directory
from moldau.simulation.cluster.settings import (
    CONTROLLER_PORT,
    Voters,
    controllers_of,
    host_of,
    is_flushed,
    settings_of,
    voters_of,
)
from moldau.simulation.kinds import random_of
from moldau.simulation.node_machine import NodeMachine
from moldau.simulation.surroundings import Surroundings
from moldau.simulation.violation import ViolationError
from moldau.types import BrokerId, Uuid
from moldau.wire.protocol.messages.raft_records import Endpoint, KRaftVersionFeature, VotersRecordVoter

CONTROLLER = "CONTROLLER"
CLUSTER_ID = "tBkDQh1jQTWVvPkPqJ9o1w"
DOWN_S = (0.05, 0.5, 2.5, 8.0)
"""An ended process is restarted after one of these times."""


class ClusterMachine(NodeMachine):
    """`rests_on_others`: some of its data was lost, and the cluster has not been whole since."""

    def __init__(self, around: Surroundings, node_id: int) -> None:
        host = host_of(node_id)
        super().__init__(around, host, settings_of(around.seed, node_id), [MemoryDisk()], ended=self._process_ended)
        self.node_id = node_id
        self.is_flushed = is_flushed(self.settings)
        self.rests_on_others = False
        self.is_away = False
        """The machine is not restarted."""
        self.is_calm = False
        """Trouble has ended: a failed start is now a violation of the node."""
        self._began_in_trouble = True
        self._restarts = around.random_of(f"{host}/restarts")
        self._formats = around.random_of(f"{host}/format")
        is_first_voter = voters_of(around.seed) is not Voters.CONFIGURED and self.is_controller
        self.directory_id = self._format(first_voters(around.seed) if is_first_voter else ())

    @property
    def is_controller(self) -> bool:
        return self.node_id in controllers_of(self.around.seed)

    def _format(self, voters: tuple[VotersRecordVoter, ...]) -> Uuid:
        """Formats the directory of the only disk and returns its id. Without `voters` the node discovers them."""
        properties = format_directory(
            self.disks[0],
            SeededRandom(self._formats.getrandbits(64)),
            now_ms=self.clock.now_ms(),
            node_id=BrokerId(self.node_id),
            controller_listener=BrokerListener(CONTROLLER, "", 0),
            cluster_id=CLUSTER_ID,
            initial_controllers=voters,
        )
        return properties.directory_id

    def lose_disk(self) -> None:
        """The process ends and loses its disk. The next one starts with an empty disk and another directory id."""
        self.around.trace.tell(f"{self.host} gets an empty disk")
        self.kill("process")
        self.disks[0] = MemoryDisk()
        self.directory_id = self._format(())
        self.rests_on_others = True

    @property
    def has_disk_trouble(self) -> bool:
        """Whether the directory may fail, and the node halt."""
        return self.is_disk_troubled or self.is_disk_limited

    def start_if_down(self) -> None:
        if not (self.is_alive or self.is_away):
            self.heal_disks()
            self.is_disk_troubled = False
            self._began_in_trouble = not self.is_calm
            self._begin(self.boot())

    def leave(self) -> None:
        """The process ends, and is not restarted until `come_back`."""
        self.is_away = True
        self.kill("process")

    def come_back(self) -> None:
        self.is_away = False
        self.start_if_down()

    def stop_soon(self) -> None:
        """Begins a clean stop, during which the process may die."""
        if self.is_up:
            self._begin(self.stop())

    def replace_disk(self) -> None:
        """Restarts the node on a healthy disk, as an operator does after a disk error."""
        if self.is_disk_troubled:
            self.kill("process")

    def _begin(self, work: Coroutine[Any, Any, bool]) -> None:
        async def until_violated() -> None:
            try:
                await work
            except ViolationError as violation:
                self.around.violate(violation)

        task = asyncio.ensure_future(until_violated())
        self.around.loop.graveyard.append(task)

    def _process_ended(self, is_power_lost: bool) -> None:
        self.rests_on_others |= is_power_lost and not self.is_flushed
        self.around.after(0.0 if self.is_calm else 1_000 * self._restarts.choice(DOWN_S), self.start_if_down)

    def _failed(self, what: str, error: BaseException) -> None:
        """During trouble a start may fail to reach the others in time. It may also reach only new controllers, which
        reject it as a second broker with its id until its session expires."""
        if self.is_calm and not (self._began_in_trouble and isinstance(error, TimeoutError)):
            super()._failed(what, error)
        self.kill("process")

    def plan_death(self, changes: int, random: Random) -> None:
        self.plan_crash("process", changes, random)


def first_voters(seed: int) -> tuple[VotersRecordVoter, ...]:
    """All controllers, each with the directory of its formatting."""
    return tuple(voter(node_id, first_directory_id(seed, node_id)) for node_id in controllers_of(seed))


def first_directory_id(seed: int, node_id: int) -> Uuid:
    return random_uuid(SeededRandom(random_of(seed, f"{host_of(node_id)}/first directory").getrandbits(64)))


def voter(node_id: int, directory_id: Uuid) -> VotersRecordVoter:
    """A node in the form of the voters record."""
    endpoint = Endpoint(CONTROLLER, host_of(node_id), CONTROLLER_PORT)
    return VotersRecordVoter(node_id, directory_id, (endpoint,), KRaftVersionFeature(0, 1))
