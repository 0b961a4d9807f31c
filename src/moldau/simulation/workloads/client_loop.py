"""Base of every simulated client. It reconnects after each failure."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import msgspec

from moldau.errors import ERROR_NAMES
from moldau.simulation.client import Client, UnansweredError
from moldau.simulation.violation import ViolationError
from moldau.wire.protocol.error_codes import error_codes

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld


class ClientLoop(ABC):
    """One simulated client, which reconnects after each failure."""

    def __init__(self, world: ClientWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.random = world.random_of(f"client/{name}")
        self.connection: Client | None = None

    async def run(self) -> None:
        """Steps until `is_done`. A ViolationError ends the world."""
        try:
            while not self.is_done():
                try:
                    await self.step()
                except UnansweredError as error:
                    self.world.trace.note("unanswered", self.name, str(error))
                    await asyncio.sleep(self.random.uniform(0.01, 0.3))
        except ViolationError as violation:
            self.world.violate(violation)
        finally:
            self.close()

    def is_done(self) -> bool:
        return self.world.is_draining

    @abstractmethod
    async def step(self) -> None:
        """One action of the client. Raises UnansweredError if the broker does not answer."""

    async def client(self) -> Client:
        """The open connection, or a new one. Raises UnansweredError if the broker is down."""
        connection = self.connection
        if connection is None or not connection.is_open:
            connection = self.connection = await self.world.connect(self.name, self.random)
        return connection

    def close(self) -> None:
        if self.connection is not None and self.connection.is_open:
            self.connection.close()
        self.connection = None

    async def pause(self) -> None:
        """The pause of a client between two requests, usually short."""
        await asyncio.sleep(self.random.choice(self.world.pauses_s))

    def must_be_retriable(self, error_code: int, what: str) -> None:
        """Raises ViolationError for an error that nothing in this world explains."""
        self.world.trace.note("refused", self.name, what, error_code)
        if error_code not in self.world.retriable:
            raise ViolationError(
                "no unexpected refusals", f"{self.name}: {what} got {error_code} {ERROR_NAMES.get(error_code)}"
            )


class FiniteLoop(ClientLoop):
    """A client that ends when its task is finished."""

    is_finished = False

    def is_done(self) -> bool:
        return self.is_finished


def errors_of(answer: object) -> list[int]:
    """Every non-zero `error_code` anywhere in a response."""
    return [code for code in error_codes(answer) if code] if isinstance(answer, msgspec.Struct) else []
