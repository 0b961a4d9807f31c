"""Sessions of people who logged in, in the memory of the service. A browser holds a random id of 256 bits.

The service keeps only a hash of the id. A session ends after an idle time, after a maximum time, at
log-out, at log-out everywhere, and when the service stops. Used from the loop of the service.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable

from msgspec.structs import replace

from moldau.products.service.people import Person

MAX_SESSIONS = 1_000
"""The maximum for one service. A further session ends the least recently used one."""
MAX_OF_ONE = 20
"""The maximum for one person. A further session ends the oldest one."""
ID_BYTES = 32


class Session:
    """`end`: gives up the login's access, such as a delegation token; called once. `renew`: keeps it valid; False means
    that it has ended. `ends_s`: the latest end, by the clock of the service."""

    def __init__(
        self, person: Person, now_s: float, ends_s: float, end: Callable[[], None], renew: Callable[[], bool]
    ) -> None:
        self.person = replace(person, csrf=secrets.token_urlsafe(ID_BYTES))
        self.seen_s = now_s
        self.ends_s = ends_s
        self.is_over = False
        self.renew = renew
        self._end = end

    def end(self) -> None:
        self.is_over = True
        self._end()


class Sessions:
    """`idle_s`: how long a session lasts without a request."""

    def __init__(self, idle_s: float) -> None:
        self._idle_s = idle_s
        self._by_hash: dict[bytes, Session] = {}
        """The least recently used session comes first."""

    def __len__(self) -> int:
        return len(self._by_hash)

    def open(self, session: Session) -> str:
        """Returns the id for the browser, always a new one: an id from before the login is never reused."""
        mine = [key for key, one in self._by_hash.items() if one.person.principal == session.person.principal]
        if len(mine) >= MAX_OF_ONE:
            self._end(mine[0])
        if len(self._by_hash) >= MAX_SESSIONS:
            self._end(next(iter(self._by_hash)))
        text = secrets.token_urlsafe(ID_BYTES)
        self._by_hash[_hash(text)] = session
        return text

    def find(self, text: str, now_s: float) -> Session | None:
        """The session of an id; marks it as used now."""
        key = _hash(text)
        session = self._by_hash.get(key)
        if session is None:
            return None
        if self._is_over(session, now_s):
            self._end(key)
            return None
        session.seen_s = now_s
        self._by_hash[key] = self._by_hash.pop(key)
        return session

    def close(self, text: str) -> None:
        """Log-out."""
        if _hash(text) in self._by_hash:
            self._end(_hash(text))

    def close_all(self, principal: str | None = None) -> int:
        """Log-out everywhere: ends all sessions of a person, or with None all sessions. Returns their number."""
        chosen = [key for key, one in self._by_hash.items() if principal in (None, one.person.principal)]
        for key in chosen:
            self._end(key)
        return len(chosen)

    def all(self) -> list[Session]:
        return list(self._by_hash.values())

    def drop(self, session: Session) -> None:
        """Ends this session if it is still open."""
        for key in [key for key, one in self._by_hash.items() if one is session]:
            self._end(key)

    def sweep(self, now_s: float) -> None:
        """Ends expired sessions."""
        for key in [key for key, one in self._by_hash.items() if self._is_over(one, now_s)]:
            self._end(key)

    def _is_over(self, session: Session, now_s: float) -> bool:
        return now_s >= session.ends_s or now_s - session.seen_s >= self._idle_s

    def _end(self, key: bytes) -> None:
        self._by_hash.pop(key).end()


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def is_same(given: str, expected: str) -> bool:
    """Compares secrets in constant time."""
    return bool(expected) and hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())
