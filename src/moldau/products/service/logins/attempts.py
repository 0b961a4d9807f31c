"""Bounds on login attempts, by address and by user, in bounded memory. Pure decisions; callers pass `now_s`.

After FREE failures an address waits before its next attempt, twice as long each time, at most LONGEST_S. The same
applies to a user, except at an address without a failure: an attacker elsewhere cannot lock the user out. A successful
login resets nothing, because an attacker may have an account too.
"""

from __future__ import annotations

import ipaddress

import msgspec

FREE_OF_ADDRESS = 5
FREE_OF_USER = 10
FIRST_S, LONGEST_S = 1.0, 60.0
FORGOTTEN_S = 900.0
"""After this time without a failure, an address or a user counts as new."""
MAX_KEPT = 10_000
"""The maximum number of addresses, and of users. A further one removes the one whose last failure is oldest."""


class _Failures(msgspec.Struct):
    count: int = 0
    last_s: float = 0.0


class Attempts:
    def __init__(self) -> None:
        self._addresses: dict[str, _Failures] = {}
        self._users: dict[str, _Failures] = {}

    @property
    def kept(self) -> int:
        """The number of addresses and users in memory."""
        return len(self._addresses) + len(self._users)

    def wait_s(self, address: str, user: str, now_s: float) -> float:
        """How long this attempt has to wait; 0 if it may be made now."""
        of_address = _wait_s(self._addresses.get(_network(address)), FREE_OF_ADDRESS, now_s)
        if _network(address) not in self._addresses:
            return 0.0
        return max(of_address, _wait_s(self._users.get(user), FREE_OF_USER, now_s))

    def failed(self, address: str, user: str, now_s: float) -> None:
        _count(self._addresses, _network(address), now_s)
        _count(self._users, user, now_s)


def _wait_s(failures: _Failures | None, free: int, now_s: float) -> float:
    if failures is None or failures.count < free or now_s - failures.last_s >= FORGOTTEN_S:
        return 0.0
    delay_s = min(LONGEST_S, FIRST_S * 2.0 ** min(failures.count - free, 30))
    return max(0.0, failures.last_s + delay_s - now_s)


def _count(kept: dict[str, _Failures], key: str, now_s: float) -> None:
    failures = kept.pop(key, None)
    if failures is None or now_s - failures.last_s >= FORGOTTEN_S:
        failures = _Failures()
    failures.count += 1
    failures.last_s = now_s
    if len(kept) >= MAX_KEPT:
        del kept[next(iter(kept))]
    kept[key] = failures


def _network(address: str) -> str:
    """An IPv6 address counts by its /64, because one machine may own all of it."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    return address if parsed.version == 4 else str(ipaddress.ip_network((parsed, 64), strict=False))
