"""The reasons why a connection begins no further request, and the bytes that arrive meanwhile.

Up to HELD_BYTES are held, because only a connection that is read notices the client's end; then reading stops.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Protocol

from moldau.shell.network.bounds import ConnectionLimits, RequestMemory, ResponseMemory
from moldau.shell.network.connection_state import ADMITTED, CLOSING, ConnectionState
from moldau.shell.network.event_log import EventLog

HELD_BYTES = 64 << 10
"""Bytes received and held; above it the connection is not read."""


class Hold:
    """Bits: the reasons why a connection begins no request."""

    NO_ROOM = 1
    """The maximum number of served connections is reached."""
    MUTED = 2
    """The client has exceeded a quota."""
    STREAMING = 4
    """An answer is being written while its records are read."""
    NOT_SERVED = 8
    """The node does not serve yet: no handler gets the frames."""
    WRITES_PAUSED = 16
    """The client does not read its answers: the transport is above its high water."""


class Shared(Protocol):
    """The shared state of a loop's connections."""

    loop: asyncio.AbstractEventLoop
    limits: ConnectionLimits
    request_memory: RequestMemory
    response_memory: ResponseMemory
    log: EventLog


class FlowControl(ABC):
    """The holds of one connection, which continues in `_resume`."""

    __slots__ = ("_held", "_holds", "_is_paused", "_is_resuming", "_muted", "_transport", "group", "state")

    def __init__(self, group: Shared) -> None:
        self.group = group
        self._transport: asyncio.Transport | None = None
        self.state: ConnectionState = ADMITTED
        self._holds = Hold.NOT_SERVED
        self._muted: asyncio.TimerHandle | None = None
        self._held: bytearray | None = None
        self._is_paused = False
        """The transport is not reading."""
        self._is_resuming = False
        """`_resume` will run in the next turn of the loop."""

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended, or this side is ending it."""
        return self.state >= CLOSING

    @property
    def is_write_paused(self) -> bool:
        """Whether the client does not read its answers."""
        return self._holds & Hold.WRITES_PAUSED != 0

    @abstractmethod
    def _resume(self) -> None:
        """Continues after the end of a wait."""

    def hold(self, reason: int) -> None:
        """No further request begins until `release` of the same reason, see Hold."""
        self._holds |= reason

    def release(self, reason: int) -> None:
        """Ends the hold for `reason`. If no other reason holds, requests begin again in the next turn of the loop."""
        self._holds &= ~reason
        self._resume_later()

    def mute(self, throttle_ms: int) -> None:
        """No further request begins for `throttle_ms`. If the connection is already muted, the later end applies."""
        end_s = self.group.loop.time() + throttle_ms / 1_000
        if self.is_closed or (self._muted is not None and self._muted.when() >= end_s):
            return
        self._end_mute()
        self.hold(Hold.MUTED)
        self._muted = self.group.loop.call_at(end_s, self._unmute)

    def _unmute(self) -> None:
        self._muted = None
        self.release(Hold.MUTED)

    def _end_mute(self) -> None:
        if self._muted is not None:
            self._muted.cancel()
            self._muted = None

    def _pause_reading(self) -> None:
        if not self._is_paused and self._transport is not None and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._is_paused and not self.is_closed and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()

    def _resume_later(self) -> None:
        if (self._held is not None or self._is_paused) and not self._is_resuming:
            self._is_resuming = True
            self.group.loop.call_soon(self._resume)

    def _set_held(self, held: bytearray | None) -> None:
        old, self._held = self._held, held
        if held is not None:
            self.group.request_memory.take(len(held))
        if old is not None:
            self.group.request_memory.give_back(len(old))
