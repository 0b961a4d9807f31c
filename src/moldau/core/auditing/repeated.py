"""Limits how often denials of one client are written, so that they cannot fill the file."""

from __future__ import annotations

from typing import Final

CLIENT_LINES: Final = 10
"""The most lines of one client (its address and principal) in WINDOW_MS."""
ALL_LINES: Final = 200
"""The most lines of all clients in WINDOW_MS."""
WINDOW_MS: Final = 10_000
MAX_CLIENTS: Final = 10_000
"""The most clients that are remembered at once. Above it the one that came first is forgotten."""

Client = tuple[str, str]
"""Address and principal."""


class _Window:
    __slots__ = ("began_ms", "left_out", "written")

    def __init__(self, now_ms: int) -> None:
        self.began_ms = now_ms
        self.written = self.left_out = 0

    def takes(self, now_ms: int, limit: int) -> bool:
        """Whether one more line may be written."""
        if now_ms - self.began_ms >= WINDOW_MS:
            self.began_ms = now_ms
            self.written = 0
        return self.written < limit


class RepeatedRefusals:
    """Ask `admit` for each denial."""

    def __init__(self) -> None:
        self._clients: dict[Client, _Window] = {}
        self._all = _Window(0)

    def admit(self, client: Client, now_ms: int) -> int | None:
        """The number of this client's denials that were left out since its last line. None: do not write this denial.
        `now_ms`: steady."""
        window = self._clients.get(client)
        if window is None:
            if len(self._clients) >= MAX_CLIENTS:
                self._forget_one()
            window = self._clients[client] = _Window(now_ms)
        if not (window.takes(now_ms, CLIENT_LINES) and self._all.takes(now_ms, ALL_LINES)):
            window.left_out += 1
            return None
        window.written += 1
        self._all.written += 1
        left_out, window.left_out = window.left_out, 0
        return left_out

    def ended(self, now_ms: int) -> list[tuple[Client, int]]:
        """The clients whose window is over, with the number of denials that no line has counted yet. Call it from time
        to time."""
        over = [client for client, window in self._clients.items() if now_ms - window.began_ms >= WINDOW_MS]
        found = [(client, self._clients.pop(client).left_out) for client in over]
        return [(client, left_out) for client, left_out in found if left_out]

    def _forget_one(self) -> None:
        """Forgets the first client, and adds its uncounted denials to those of all forgotten clients."""
        client = next(iter(self._clients))
        self._all.left_out += self._clients.pop(client).left_out

    def take_forgotten(self) -> int:
        """The number of denials of forgotten clients that no line has counted."""
        left_out, self._all.left_out = self._all.left_out, 0
        return left_out
