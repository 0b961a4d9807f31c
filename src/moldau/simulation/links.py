"""The link from one host to another, and the behaviour of the wire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from moldau.simulation.loop import CLOCK_RESOLUTION, VirtualLoop

FIRST_RETRY_S = 0.2
"""The pause before TCP's first retransmission. Each further pause is twice as long."""
FIRST_CONNECT_RETRY_S = 1.0
"""The same while a connection is opened."""
MAX_RETRY_S = 120.0


class NetworkWeather(msgspec.Struct):
    """The behaviour of the wire: delays in seconds, shares in [0, 1]. The scenario changes it while the world runs."""

    delay_min: float = 0.000_05
    delay_max: float = 0.002
    spike_share: float = 0.01
    spike_max: float = 0.3
    cut_share: float = 0.25
    """The share of reads that return only a part of the data that has arrived."""
    reset_share: float = 0.0
    """The share of arrivals that end in a reset, after a part of the bytes."""
    late_write_share: float = 0.25
    """The share of writes whose bytes enter the wire only in a later turn of the loop."""
    window_bytes: int = 65_536


def storm(random: Random) -> NetworkWeather:
    """Delayed and interrupted traffic: resets at any byte, small windows, long delays."""
    return NetworkWeather(
        delay_max=random.choice((0.002, 0.05)),
        spike_share=0.05,
        cut_share=0.8,
        reset_share=random.choice((0.0, 0.01, 0.05)),
        window_bytes=random.choice((512, 4_096, 65_536)),
    )


def retry_s(began_s: float, first_s: float, now_s: float) -> float:
    """The time, at or after `now_s`, of TCP's next retransmission of data first sent at `began_s`. The first pause is
    `first_s`."""
    due_s, pause_s = began_s + first_s, first_s
    while due_s < now_s:
        pause_s = min(2 * pause_s, MAX_RETRY_S)
        due_s += pause_s
    return due_s


class Link:
    """The link from one host to another."""

    __slots__ = ("_ends_s", "_held", "_loop", "cut_s", "delay_s", "is_cut")

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.is_cut = False
        self.cut_s = 0.0
        """The time when it was cut."""
        self.delay_s = 0.0
        """The extra delay of traffic on this link: the full delay for bytes of a connection, a random part of it for a
        message."""
        self._ends_s = 0.0
        """The time when the link is normal again."""
        self._held: list[tuple[Callable[[], object], float, float]] = []

    def trouble(self, length_s: float, *, delay_s: float | None = None) -> None:
        """Slows the link by `delay_s`, or without it cuts the link, for `length_s`."""
        if delay_s is None:
            self.cut_s = self.cut_s if self.is_cut else self._loop.time()
            self.is_cut = True
        else:
            self.delay_s = delay_s
        self._ends_s = self._loop.time() + length_s
        self._loop.call_later(length_s, self._end)

    def _end(self) -> None:
        now_s = self._loop.time()
        if now_s >= self._ends_s - CLOCK_RESOLUTION:  # otherwise another trouble has begun in the meantime
            for act, began_s, first_s in self._whole():
                self._loop.call_at(retry_s(began_s, first_s, now_s), act)

    def hold(self, act: Callable[[], object], first_s: float, began_s: float | None = None) -> None:
        """Calls `act` after the repair of the link, at the retransmission of data first sent at `began_s` (None: now)
        with a first pause of `first_s`. By then the link may be cut again."""
        self._held.append((act, self._loop.time() if began_s is None else began_s, first_s))

    def mend(self) -> None:
        """Ends cut and delay. Sends data held since the cut at once, in order."""
        for act, _, _ in self._whole():
            act()

    def _whole(self) -> list[tuple[Callable[[], object], float, float]]:
        """Returns the held data."""
        self.is_cut = False
        self.delay_s = 0.0
        held, self._held = self._held, []
        return held
