"""The life of a broker in a cluster of several nodes (KIP-631).

The broker registers with the active controller, sends heartbeats, and stops when the others no longer need it.

For a broker that is alone with its controller see life_cycle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from moldau.core.beat import beat_ms
from moldau.errors import ERROR_CODES, KafkaError, kafka_error
from moldau.shell.network.event_log import EventLog
from moldau.types import Uuid
from moldau.wire.protocol.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
)

SOON_S = 0.05
"""The pause between requests while the broker waits to register, to serve or to stop."""

_NOT_YET = tuple(ERROR_CODES[name] for name in ("DUPLICATE_BROKER_REGISTRATION", "REQUEST_TIMED_OUT"))
"""Retried errors: the session of an earlier life has not ended, or no controller is active."""
_REQUEST_TIMED_OUT = ERROR_CODES["REQUEST_TIMED_OUT"]
_UNSUPPORTED_VERSION = ERROR_CODES["UNSUPPORTED_VERSION"]
_FORGOTTEN = tuple(ERROR_CODES[name] for name in ("BROKER_ID_NOT_REGISTERED", "STALE_BROKER_EPOCH"))


class BrokerReport(msgspec.Struct, frozen=True):
    """The content of each heartbeat."""

    metadata_offset: Callable[[], int]
    """The last offset of the metadata log that this node knows to be committed."""
    failed_directories: Callable[[], tuple[Uuid, ...]]
    """The log directories that have failed."""
    cordoned_directories: Callable[[], tuple[Uuid, ...] | None]
    """The log directories that take no new replicas. None: not every node knows of cordoned directories."""


class Heartbeats:
    """The heartbeats of one life of a broker. `take_part` returns when the broker has acted on the metadata that the
    report names; from then on the broker acts on all metadata. `registered` gets each epoch that the controller
    assigns."""

    def __init__(
        self,
        registration: BrokerRegistrationRequest,
        submit: Callable[[Any], Awaitable[Any]],
        log: EventLog,
        report: BrokerReport,
        *,
        take_part: Callable[[], Awaitable[None]],
        registered: Callable[[int], None],
        interval_ms: int,
        registration_timeout_ms: int,
    ) -> None:
        self._registration = registration
        self._submit = submit
        self._log = log
        self._report = report
        self._take_part = take_part
        self._registered = registered
        self._interval_ms = interval_ms
        self._registration_timeout_s = registration_timeout_ms / 1_000
        self._epoch = -1
        self._is_due = asyncio.Event()
        self._is_stopping = False
        self._is_answered = True

    async def start(self) -> None:
        """Returns when the broker is registered and may serve. Raises KafkaError, and TimeoutError if no controller
        registered it within `initial.broker.registration.timeout.ms`.

        Until the metadata holds its registration, the broker acts on none: it may no longer lead what it led in its
        last life, as a power loss may have removed records that other replicas have (KIP-966)."""
        async with asyncio.timeout(self._registration_timeout_s):
            await self._register()
            await self._beat_until(lambda answer: answer.is_caught_up, want_fence=True)
            await self._take_part()
            await self._beat_until(lambda answer: not answer.is_fenced)

    def beat_now(self) -> None:
        """Sends a heartbeat at once: the controller may have fenced this broker, or may not know this broker or its
        directories yet."""
        self._is_due.set()

    async def go_on(self) -> None:
        """Sends a heartbeat each `broker.heartbeat.interval.ms`, or sooner (see `beat_now`), until the broker stops.
        Registers again if the controller has forgotten this broker. Logs any other error, also a rejected registration,
        and tries again. A heartbeat without an answer takes half a session, so the next one follows at once."""
        while True:
            now_ms = int(asyncio.get_running_loop().time() * 1_000)
            due_ms = beat_ms(now_ms, self._interval_ms) if self._is_answered else now_ms + SOON_S * 1_000
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due_ms / 1_000):
                    await self._is_due.wait()
            self._is_due.clear()
            if self._is_stopping:
                return  # a heartbeat now would unfence a broker that has left
            try:
                if not await self._is_known():
                    await self._register()
            except KafkaError as error:
                self._log.warn("registration", f"the controller does not take this broker again: {error}")

    async def shut_down(self) -> None:
        """Returns when the broker leads nothing and all others know it. Raises KafkaError."""
        self._is_stopping = True
        await self._beat_until(lambda answer: answer.should_shut_down, want_shut_down=True)

    async def _is_known(self) -> bool:
        """Sends one heartbeat. False: the controller has forgotten this broker."""
        try:
            await self._beat()
        except KafkaError as error:
            self._is_answered = error.code != _REQUEST_TIMED_OUT
            self._log.warn("heartbeat", f"the controller did not take a heartbeat: {error}")
            return error.code not in _FORGOTTEN
        self._is_answered = True
        return True

    async def _register(self) -> None:
        """Registers the broker. Raises KafkaError if the controller rejects it."""
        while True:
            try:
                answer = await self._submit(self._registration)
                if not answer.error_code:
                    break
            except KafkaError as error:
                if error.code == _UNSUPPORTED_VERSION:
                    raise kafka_error(error.code, self._why_unsupported(str(error))) from error
                if error.code not in _NOT_YET:
                    raise
            await asyncio.sleep(SOON_S)
        self._epoch = answer.broker_epoch
        self._registered(self._epoch)

    def _why_unsupported(self, said: str) -> str:
        """Explains the rejection: another node's answer is only a code, without the feature's name."""
        ranges = ", ".join(
            f"{feature.name} {feature.min_supported_version} to {feature.max_supported_version}"
            for feature in self._registration.features
        )
        return (
            f"the controller refuses broker {self._registration.broker_id} ({said}): the cluster has finalized a "
            f"feature level that this broker does not support, and `kafka-features describe` shows it; this broker "
            f"supports {ranges}, and no other feature"
        )

    async def _beat_until(self, is_done: Callable[[BrokerHeartbeatResponse], bool], **wants: bool) -> None:
        while True:
            try:
                if is_done(await self._beat(**wants)):
                    return
            except KafkaError as error:
                if error.code not in _NOT_YET:
                    raise
            await asyncio.sleep(SOON_S)

    async def _beat(self, *, want_fence: bool = False, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            self._registration.broker_id,
            self._epoch,
            self._report.metadata_offset(),
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            offline_log_dirs=self._report.failed_directories(),
            cordoned_log_dirs=None if want_fence else self._report.cordoned_directories(),
        )
        answer: BrokerHeartbeatResponse = await self._submit(request)
        return answer
