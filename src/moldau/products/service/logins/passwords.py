"""Basic passwords of the cluster's users: tried at a broker, then remembered for a short time.

A salted hash is kept for KEPT_S. For that time an old password still works after it was changed or the user deleted. A
wrong password changes nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable

import msgspec

from moldau.products.service.logins.source import LoginRefused
from moldau.products.service.people import Person

KEPT_S = 60.0
MAX_KEPT = 1_000
"""The maximum number of names. A further one removes the one that was tried first."""
MAX_NAME, MAX_PASSWORD = 255, 4_096
ROUNDS = 1_000
"""Rounds of PBKDF2, which take half a millisecond."""


class _Known(msgspec.Struct, frozen=True):
    salt: bytes
    digest: bytes
    person: Person
    until_s: float

    def __repr__(self) -> str:
        return f"_Known({self.person!r})"


class KnownPasswords:
    """`ask`: tries a name and a password at the cluster; it waits, and raises LoginRefused or NoAnswer. Thread-safe."""

    def __init__(self, ask: Callable[[str, str], Person], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}

    def known(self, name: str, password: str) -> Person | None:
        """The person of a remembered password, without a request to the cluster; takes half a millisecond."""
        with self._lock:
            found = self._known.get(name)
        if found is None or self._clock() >= found.until_s or len(password) > MAX_PASSWORD:
            return None
        return found.person if _is_same(found, password) else None

    def log_in(self, name: str, password: str) -> Person:
        """Waits for the cluster. Raises LoginRefused, NoAnswer."""
        if len(name) > MAX_NAME or not 0 < len(password) <= MAX_PASSWORD:
            raise LoginRefused("Unauthorized", is_wrong=True)
        person = self._ask(name, password)
        self._keep(name, password, person)
        return person

    def __len__(self) -> int:
        return len(self._known)

    def _keep(self, name: str, password: str, person: Person) -> None:
        salt = secrets.token_bytes(16)
        found = _Known(salt, _digest(password, salt), person, self._clock() + KEPT_S)
        with self._lock:
            self._known.pop(name, None)
            if len(self._known) >= MAX_KEPT:
                del self._known[next(iter(self._known))]
            self._known[name] = found


def _digest(password: str, salt: bytes) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password.encode("utf-8", "surrogatepass"), salt, ROUNDS)


def _is_same(known: _Known, password: str) -> bool:
    return hmac.compare_digest(known.digest, _digest(password, known.salt))
