"""The life of a broker that shares its process with the controller: it registers, serves and stops (KIP-631, 841).

Requests are protocol messages, passed as arguments of a call. No timer repeats them, as the broker and its controller
live and die together.
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
"""The pause between requests while the broker waits until the others know that it leads nothing."""
SHUTDOWN_TIMEOUT_S = 5.0
"""How long a clean stop waits for the controller, for example while the disk is full."""


class OwnController(Protocol):
    """The active controller, in this process."""

    async def submit(self, request: Any) -> Any:
        """The answer, once it is committed. Raises KafkaError."""

    def ask(self, request: Any) -> Any:
        """Decides `request` now. Returns the answer or a future for it. Raises KafkaError, now or through the
        future."""

    def decided_epoch(self, broker_id: int, incarnation_id: Uuid) -> int | None:
        """The epoch of a decided registration, which may not be committed yet. None: no registration is decided."""


class LifeCycle:
    """The life cycle of one broker."""

    def __init__(self, node_id: BrokerId, controller: OwnController) -> None:
        self._node_id = node_id
        self._controller = controller

    async def start(self, registration: BrokerRegistrationRequest, cordoned: tuple[Uuid, ...] = ()) -> int:
        """Registers and unfences the broker, which serves already; returns its epoch. `cordoned`: its log directories
        that take no new replicas. Needs one flush, unless an earlier life must be ended first. Raises KafkaError."""
        first = self._controller.ask(registration)
        epoch = self._controller.decided_epoch(self._node_id, registration.incarnation_id)
        if epoch is None:
            registered = await first if isinstance(first, asyncio.Future) else first
            while registered.error_code:
                registered = await self._controller.submit(registration)
            epoch = registered.broker_epoch
        else:
            # the commit that unfences this broker also brings its registration into its metadata
            answers = first, self._controller.ask(self._serving(epoch, cordoned))
            await asyncio.gather(*(answer for answer in answers if isinstance(answer, asyncio.Future)))
        await self.serve(epoch, cordoned)
        return epoch

    async def serve(self, broker_epoch: int, cordoned: tuple[Uuid, ...]) -> None:
        """Returns when the broker leads all it can, and the controller knows its cordoned directories. Raises
        KafkaError."""
        while not (await self._controller.submit(self._serving(broker_epoch, cordoned))).is_caught_up:
            pass

    def _serving(self, broker_epoch: int, cordoned: tuple[Uuid, ...]) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(self._node_id, broker_epoch, broker_epoch, cordoned_log_dirs=cordoned)

    async def shut_down(self, broker_epoch: int) -> None:
        """Stops the broker cleanly: its partitions get other leaders or none, and it is fenced. Waits until the other
        brokers, if any, know. Raises KafkaError."""
        stopping = BrokerHeartbeatRequest(self._node_id, broker_epoch, want_shut_down=True)
        has_asked = False
        while not (await self._controller.submit(stopping)).should_shut_down:
            if has_asked:
                await asyncio.sleep(SOON_S)
            has_asked = True


async def in_time(farewell: Awaitable[None]) -> None:
    """Waits for `farewell`, the last request to the controller. Ignores its failure or time-out: the broker stops
    anyway."""
    with contextlib.suppress(MoldauError, TimeoutError):
        async with asyncio.timeout(SHUTDOWN_TIMEOUT_S):
            await farewell
