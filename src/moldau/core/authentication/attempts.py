"""The delay of a client that fails to authenticate. It grows with each failure from the same address."""

from __future__ import annotations

import msgspec

MAX_DELAY_MS = 10_000
MAX_ADDRESSES = 10_000
"""Above it, the address with the oldest last failure is forgotten."""
MAX_WAITING = 100
"""The most failed connections of one address that wait for their response. A further one is closed at once, without a
response."""
FORGOTTEN_AFTER_MS = 60_000
"""An address is forgotten after so long without another failure."""


class _Address(msgspec.Struct):
    failures: int = 0
    last_ms: int = 0
    waiting: int = 0


class FailedAttempts:
    """One for each node. A successful client is never delayed, because many clients may share an address."""

    def __init__(self, base_delay_ms: int) -> None:
        """`base_delay_ms`: `connection.failed.authentication.delay.ms`. 0: no delay."""
        self._base_delay_ms = base_delay_ms
        self._addresses: dict[str, _Address] = {}
        self.count = 0
        """Failures since the start."""

    def failed(self, address: str, now_ms: int) -> int | None:
        """The delay in milliseconds before the response and the end of the connection. None: close at once, without a
        response. Unless it is None, call `answered` after the response."""
        self.count += 1
        key = _network(address)
        entry = self._addresses.pop(key, None)
        if entry is None or (now_ms - entry.last_ms >= FORGOTTEN_AFTER_MS and not entry.waiting):
            entry = _Address()
        self._addresses[key] = entry
        while len(self._addresses) > MAX_ADDRESSES:
            del self._addresses[next(iter(self._addresses))]
        doublings, entry.failures, entry.last_ms = entry.failures, entry.failures + 1, now_ms
        if entry.waiting >= MAX_WAITING:
            return None
        entry.waiting += 1
        return min(self._base_delay_ms << min(doublings, 20), max(MAX_DELAY_MS, self._base_delay_ms))

    def answered(self, address: str) -> None:
        """A delayed connection has got its response."""
        entry = self._addresses.get(_network(address))
        if entry is not None and entry.waiting:
            entry.waiting -= 1

    def __len__(self) -> int:
        return len(self._addresses)


def _network(address: str) -> str:
    """The address, or the first 64 bits of an IPv6 address, because one client may have all addresses of such a
    prefix."""
    if ":" not in address or "." in address:
        return address
    head, _, tail = address.partition("%")[0].partition("::")
    groups = head.split(":") if head else []
    missing = 8 - len(groups) - (len(tail.split(":")) if tail else 0)
    return ":".join([*groups, *["0"] * missing, *tail.split(":")][:4])
