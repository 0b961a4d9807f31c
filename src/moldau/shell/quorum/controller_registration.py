"""Registers this controller with the active one, once per process start, whether or not it leads (KIP-919)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from moldau.core.metadata.features import REGISTERED_FEATURES
from moldau.core.metadata.image import BrokerListener
from moldau.errors import KafkaError
from moldau.shell.network.event_log import EventLog
from moldau.types import BrokerId, Uuid
from moldau.wire.protocol.messages.broker_lifecycle import ControllerRegistrationRequest, RegisteredListener

RETRY_S = 1.0


def registration_of(
    controller_id: BrokerId, incarnation_id: Uuid, points: Sequence[BrokerListener]
) -> ControllerRegistrationRequest:
    """The registration of the controller that listens at `points`."""
    listeners = tuple(RegisteredListener(each.name, each.host, each.port, each.security_protocol) for each in points)
    return ControllerRegistrationRequest(
        controller_id, incarnation_id, listeners=listeners, features=REGISTERED_FEATURES
    )


async def register_controller(
    registration: ControllerRegistrationRequest, submit: Callable[[Any], Awaitable[Any]], log: EventLog
) -> None:
    """Returns when the registration is committed. Logs a rejection and tries again."""
    while True:
        try:
            await submit(registration)
            return
        except KafkaError as error:
            log.warn("controller registration", f"the active controller did not take the registration: {error}")
        await asyncio.sleep(RETRY_S)
