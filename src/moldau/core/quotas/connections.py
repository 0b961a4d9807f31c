"""Limits of connections: number and rate, in total, for each listener and for each address (KIP-402, 612)."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from moldau.core.quotas.limits import LOOPBACK, ClientQuotas, ip_limit, one_spelling
from moldau.core.quotas.rates import SampledRate, Windows

UNLIMITED = 2**31 - 1
MAX_ADDRESSES = 10_000
"""The most addresses whose rate is remembered. Above it, the oldest address is forgotten."""


class ListenerLimits(msgspec.Struct, frozen=True):
    """max.connections and max.connection.creation.rate with the prefix `listener.name.NAME.`."""

    max_connections: int = UNLIMITED
    creation_rate: int = UNLIMITED


_NO_LIMITS = ListenerLimits()


class ConnectionLimits(msgspec.Struct, frozen=True):
    """max.connections, max.connections.per.ip with its overrides, max.connection.creation.rate."""

    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    overrides: Mapping[str, int] = {}
    creation_rate: int = UNLIMITED
    listeners: Mapping[str, ListenerLimits] = {}
    """By name: listeners with their own limits, which apply in addition to the common ones."""


class Verdict(enum.Enum):
    SERVE = 0
    SERVE_LATER = 1
    """After `wait_ms`."""
    WAIT_FOR_ROOM = 2
    """Until another connection ends."""
    CLOSE = 3
    """After `wait_ms`."""


class Admission(msgspec.Struct, frozen=True):
    verdict: Verdict
    wait_ms: int = 0
    reason: str = ""
    """The setting or quota that prevents the connection."""


_SERVED = Admission(Verdict.SERVE)


class ConnectionQuotas:
    """One for each node. After `arrived` call `left` when the connection has ended."""

    def __init__(self, limits: ConnectionLimits, windows: Windows) -> None:
        self._limits = limits
        self._quotas: ClientQuotas = {}
        self._windows = windows
        self._by_address: dict[str, int] = {}
        self._rates: dict[str, SampledRate] = {}
        self._rate: SampledRate | None = None
        self._listener_rates: dict[str, SampledRate] = {}
        self._served = 0
        self._by_listener: dict[str, int] = {}
        """The number of served connections of each listener."""
        self.accepted: dict[str, int] = {}
        """By listener: the number of connections served since the start."""

    def quotas_changed(self, quotas: ClientQuotas) -> None:
        """Takes the quotas of addresses (KIP-612) from `quotas`."""
        self._quotas = quotas

    def limits_changed(self, limits: ConnectionLimits) -> None:
        """New limits for new connections. Open connections stay open."""
        self._limits = limits

    @property
    def limits(self) -> ConnectionLimits:
        """The limits for new connections."""
        return self._limits

    def arrived(self, address: str, now_ms: int, listener: str = "", *, is_protected: bool = False) -> Admission:
        """Decides about a new connection, which counts from now on. `is_protected`: it is on the inter-broker listener,
        and clients have another one, so limits for clients do not apply. Those of its address and listener do."""
        count = self._by_address[address] = self._by_address.get(address, 0) + 1
        limits = self._limits
        if count > limits.overrides.get(address, limits.max_connections_per_ip):
            return Admission(Verdict.CLOSE, 0, "max.connections.per.ip")
        wait_ms = self._wait_for_address(address, now_ms)
        if wait_ms:
            return Admission(Verdict.CLOSE, wait_ms, "connection_creation_rate")
        full = self._full(listener, is_protected=is_protected)
        if full:
            return Admission(Verdict.WAIT_FOR_ROOM, 0, full)
        self._serve(listener)
        wait_ms, reason = self._wait_for_listener(listener, now_ms), f"{_prefix(listener)}max.connection.creation.rate"
        wait_for_all_ms = 0 if is_protected else self._wait_for_all(now_ms)
        if wait_for_all_ms > wait_ms:
            wait_ms, reason = wait_for_all_ms, "max.connection.creation.rate"
        return Admission(Verdict.SERVE_LATER, wait_ms, reason) if wait_ms else _SERVED

    def _full(self, listener: str, *, is_protected: bool) -> str:
        """The setting that prevents another connection on the listener; "" if none does."""
        limits = self._limits
        if self._by_listener.get(listener, 0) >= limits.listeners.get(listener, _NO_LIMITS).max_connections:
            return f"{_prefix(listener)}max.connections"
        return "" if is_protected or not self.is_full else "max.connections"

    @property
    def is_full(self) -> bool:
        """Whether all listeners together have reached `max.connections`."""
        return self._served >= self._limits.max_connections

    def _serve(self, listener: str) -> None:
        self._served += 1
        self._by_listener[listener] = self._by_listener.get(listener, 0) + 1
        self.accepted[listener] = self.accepted.get(listener, 0) + 1

    def _unserve(self, listener: str) -> None:
        self._served -= 1
        self._by_listener[listener] -= 1

    def no_room(self, admission: Admission, reason: str, listener: str = "") -> Admission:
        """A connection that was just accepted is closed for lack of descriptors."""
        if admission.verdict in (Verdict.SERVE, Verdict.SERVE_LATER):
            self._unserve(listener)
        return Admission(Verdict.CLOSE, 0, reason)

    def room_was_found(self, listener: str = "", *, is_protected: bool = False) -> bool:
        """Gives the place of an ended connection to one that waits. False without one."""
        if self._full(listener, is_protected=is_protected):
            return False
        self._serve(listener)
        return True

    def left(self, address: str, listener: str = "", *, was_served: bool) -> None:
        """A connection has ended. `was_served`: it was accepted."""
        count = self._by_address.get(address, 1) - 1
        if count:
            self._by_address[address] = count
        else:
            self._by_address.pop(address, None)
        if was_served:
            self._unserve(listener)

    def _wait_for_address(self, address: str, now_ms: int) -> int:
        """The time until the address may connect. A connection above the quota is not served, so it does not count."""
        limit = ip_limit(self._quotas, address) if self._quotas else None
        if limit is None:
            return 0
        rate = self._rates.get(address)
        if rate is None:
            if len(self._rates) >= MAX_ADDRESSES:
                del self._rates[next(iter(self._rates))]
            rate = self._rates[address] = SampledRate(self._windows, now_ms)
        rate.record(1, now_ms)
        wait_ms = rate.throttle_ms(limit, now_ms)
        if wait_ms:
            rate.record(-1, now_ms)
        return min(self._windows.size_ms, wait_ms)

    def _wait_for_listener(self, listener: str, now_ms: int) -> int:
        limit = self._limits.listeners.get(listener, _NO_LIMITS).creation_rate
        if limit == UNLIMITED:
            return 0
        rate = self._listener_rates.get(listener)
        if rate is None:
            rate = self._listener_rates[listener] = SampledRate(self._windows, now_ms)
        rate.record(1, now_ms)
        return min(self._windows.size_ms, rate.throttle_ms(max(limit, 0.001), now_ms))

    def _wait_for_all(self, now_ms: int) -> int:
        limit = self._limits.creation_rate
        if limit == UNLIMITED:
            return 0
        if self._rate is None:
            self._rate = SampledRate(self._windows, now_ms)
        self._rate.record(1, now_ms)
        return min(self._windows.size_ms, self._rate.throttle_ms(max(limit, 0.001), now_ms))


def _prefix(listener: str) -> str:
    return f"listener.name.{listener.lower()}."


def parse_overrides(text: str) -> dict[str, int]:
    """`max.connections.per.ip.overrides`, such as "127.0.0.1:200,[2001:DB8::7]:5", by addresses in the form of
    connections.

    Raises ValueError for other texts. Names other than localhost are rejected: Apache Kafka resolves them by DNS, and
    an override must not depend on DNS.
    """
    overrides: dict[str, int] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        address, colon, count = part.strip().rpartition(":")
        if not colon or not address or not (count.isascii() and count.isdigit()):
            raise ValueError(f"max.connections.per.ip.overrides: {part.strip()!r} is not ADDRESS:COUNT")
        if address == "localhost":
            overrides |= dict.fromkeys(LOOPBACK, int(count[:10]))
            continue
        try:
            overrides[one_spelling(address.strip("[]"))] = int(count[:10])
        except ValueError:
            raise ValueError(
                f"max.connections.per.ip.overrides: {part.strip()!r} is not ADDRESS:COUNT: names are not looked up"
            ) from None
    return overrides
