"""Detects useless connections: no traffic, or an incomplete frame without progress."""

from __future__ import annotations

import enum

from moldau.shell.network.bounds import ConnectionLimits


class Verdict(enum.Enum):
    """The state of a connection."""

    STAYS = enum.auto()
    IDLE = enum.auto()
    """No traffic for `max_idle_ms`."""
    STUCK = enum.auto()
    """A frame stayed incomplete for `frame_timeout_ms`."""


class IdleWatch:
    """Watches one connection; called once a second."""

    __slots__ = (
        "_active_ms",
        "_frames",
        "_limits",
        "_progress_bytes",
        "_progress_ms",
        "_received_bytes",
        "_unsent_bytes",
    )

    def __init__(self, limits: ConnectionLimits, now_ms: int) -> None:
        self._limits = limits
        self._received_bytes = self._frames = self._progress_bytes = self._unsent_bytes = 0
        self._active_ms = self._progress_ms = now_ms

    def silent_ms(self, now_ms: int) -> int:
        """The time since the last detected activity."""
        return now_ms - self._active_ms

    def look(
        self,
        now_ms: int,
        received_bytes: int,
        frames: int,
        unsent_bytes: int,
        *,
        is_at_work: bool,
        is_incomplete: bool,
    ) -> Verdict:
        """`received_bytes` and `frames`: since the start. `unsent_bytes`: not yet read by the peer. `is_at_work`: this
        side causes the silence. `is_incomplete`: more of a frame must arrive."""
        if received_bytes != self._received_bytes or unsent_bytes != self._unsent_bytes or is_at_work:
            self._active_ms = now_ms
        has_come = received_bytes - self._progress_bytes
        if not is_incomplete or frames != self._frames or has_come >= self._limits.frame_progress_bytes:
            self._progress_ms, self._progress_bytes = now_ms, received_bytes
        self._received_bytes, self._frames, self._unsent_bytes = received_bytes, frames, unsent_bytes
        if now_ms - self._progress_ms >= self._limits.frame_timeout_ms:
            return Verdict.STUCK
        return Verdict.IDLE if self.silent_ms(now_ms) >= self._limits.max_idle_ms else Verdict.STAYS
