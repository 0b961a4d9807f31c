"""What a broker tells the controller of its own life: it registers, it serves, it stops (KIP-631, 841).

Every request is a message of the protocol, also where the controller lives in this process: there it is the argument of
a call, and no timer repeats it, for such a broker and its controller live and die together.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Any, Protocol

from moldau.errors import MoldauError
from moldau.types import BrokerId, Uuid
from moldau.wire.protocol.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
)

SOON_S = 0.05
"""Between two requests of a broker that waits for others to know that it leads nothing."""
SHUTDOWN_TIMEOUT_S = 5.0
"""How long a clean stop waits for the controller, say while the disk is full."""


class OwnController(Protocol):
    """The active controller, in this process."""

    async def submit(self, request: Any) -> Any:
        """The answer, once it is committed. Raises KafkaError."""

    def ask(self, request: Any) -> Any:
        """Decides `request` now: gives the answer, or a future of it. Raises KafkaError, now or through the future."""

    def decided_epoch(self, broker_id: int, incarnation_id: Uuid) -> int | None:
        """The epoch of a registration that is decided, and perhaps not committed yet."""


class LifeCycle:
    """The life cycle of one broker."""

    def __init__(self, node_id: BrokerId, controller: OwnController) -> None:
        self._node_id = node_id
        self._controller = controller

    async def start(self, registration: BrokerRegistrationRequest, cordoned: tuple[Uuid, ...] = ()) -> int:
        """Registers the broker, which serves already, and has its fence lifted; gives its epoch. `cordoned`: its log
        directories that take no new replicas. One flush, unless what an earlier life left must be ended first. Raises
        KafkaError."""
        first = self._controller.ask(registration)
        epoch = self._controller.decided_epoch(self._node_id, registration.incarnation_id)
        if epoch is None:
            registered = await first if isinstance(first, asyncio.Future) else first
            while registered.error_code:
                registered = await self._controller.submit(registration)
            epoch = registered.broker_epoch
        else:
            # this broker has its registration in its metadata by the commit that lifts its fence
            answers = first, self._controller.ask(self._serving(epoch, cordoned))
            await asyncio.gather(*(answer for answer in answers if isinstance(answer, asyncio.Future)))
        await self.serve(epoch, cordoned)
        return epoch

    async def serve(self, broker_epoch: int, cordoned: tuple[Uuid, ...]) -> None:
        """Returns when the broker leads what it can, and the controller knows which directories of it are cordoned.
        Raises KafkaError."""
        while not (await self._controller.submit(self._serving(broker_epoch, cordoned))).is_caught_up:
            pass

    def _serving(self, broker_epoch: int, cordoned: tuple[Uuid, ...]) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(self._node_id, broker_epoch, broker_epoch, cordoned_log_dirs=cordoned)

    async def shut_down(self, broker_epoch: int) -> None:
        """The broker stops cleanly: its partitions get other leaders, or lose theirs, and it is fenced. Where there are
        other brokers it waits until they know. Raises KafkaError."""
        stopping = BrokerHeartbeatRequest(self._node_id, broker_epoch, want_shut_down=True)
        has_asked = False
        while not (await self._controller.submit(stopping)).should_shut_down:
            if has_asked:
                await asyncio.sleep(SOON_S)
            has_asked = True


async def in_time(farewell: Awaitable[None]) -> None:
    """Waits for what the controller should hear of a stop, and stops all the same where it does not."""
    with contextlib.suppress(MoldauError, TimeoutError):
        async with asyncio.timeout(SHUTDOWN_TIMEOUT_S):
            await farewell
