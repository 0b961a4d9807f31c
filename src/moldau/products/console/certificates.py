"""When the brokers' certificates expire, as their TLS listeners present them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from moldau.client.protocol.access import ClusterAccess
from moldau.errors import MoldauError
from moldau.ports import Dialer
from moldau.transport.security import presented_certificate
from moldau.transport.tcp import TCP
from moldau.wire.x509 import not_after_ms

LOOK_AGAIN_S: Final = 60
"""Not every view of a page is worth a handshake: a certificate lasts for days."""
MAX_KEPT: Final = 1_000
"""How many addresses are kept. Above this number all are asked again."""
TIMEOUT_MS: Final = 2_000
DAY_S: Final = 86_400
WARN_DAYS: Final = 30
"""How many days before the expiry a page warns, as the log of a broker does."""


class Certificates:
    """Shared by all viewers; thread-safe."""

    def __init__(self, access: ClusterAccess, dialer: Dialer = TCP, now_s: Callable[[], float] = time.time) -> None:
        """`now_s`: seconds since the epoch."""
        self._access = access
        self._dialer = dialer
        self._now_s = now_s
        self._lock = threading.Lock()
        self._found: dict[str, tuple[float, float | None]] = {}
        """Address -> (time of the last handshake, expiry of the certificate)."""

    def days_left(self, address: str) -> int | None:
        """Whole days until the certificate of the broker at `address` (HOST:PORT) expires; None if it has none, or does
        not present it now."""
        now_s = self._now_s()
        with self._lock:
            asked_s, end_s = self._found.get(address, (0.0, None))
        if not asked_s <= now_s < asked_s + LOOK_AGAIN_S:
            end_s = self._ask(address)
            with self._lock:
                if len(self._found) >= MAX_KEPT:
                    self._found.clear()
                self._found[address] = (now_s, end_s)
        return None if end_s is None else int((end_s - now_s) // DAY_S)

    def _ask(self, address: str) -> float | None:
        host, _, port = address.rpartition(":")
        try:
            certificate = presented_certificate(self._access, self._dialer, host, int(port), TIMEOUT_MS)
            return None if certificate is None else not_after_ms(certificate) / 1_000
        except (MoldauError, ValueError):
            return None  # another part of the page says that the broker does not answer
