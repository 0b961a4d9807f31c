"""Sessions of people who logged in, in the memory of the service. A browser holds a random id of 256 bits.

The service keeps only a hash of the id. A session ends after a time without a request, after a time in any case, at
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
"""Of one service. One more ends the session that was used least recently."""
MAX_OF_ONE = 20
"""Of one person. One more ends the oldest."""
ID_BYTES = 32


class Session:
    """`end`: gives back what the login got, such as a delegation token; called once. `renew`: keeps that alive; False:
    it has ended. `ends_s`: at the latest, by the clock of the service."""

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
        """The one used least recently stands first."""

    def __len__(self) -> int:
        return len(self._by_hash)

    def open(self, session: Session) -> str:
        """The id for the browser, always a new one: an id from before the login is never taken over."""
        mine = [key for key, one in self._by_hash.items() if one.person.principal == session.person.principal]
        if len(mine) >= MAX_OF_ONE:
            self._end(mine[0])
        if len(self._by_hash) >= MAX_SESSIONS:
            self._end(next(iter(self._by_hash)))
        text = secrets.token_urlsafe(ID_BYTES)
        self._by_hash[_hash(text)] = session
        return text

    def find(self, text: str, now_s: float) -> Session | None:
        """The session of an id; it was used now."""
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
        """Log-out everywhere: all sessions of a person; None: of all. Gives their number."""
        chosen = [key for key, one in self._by_hash.items() if principal in (None, one.person.principal)]
        for key in chosen:
            self._end(key)
        return len(chosen)

    def all(self) -> list[Session]:
        return list(self._by_hash.values())

    def drop(self, session: Session) -> None:
        """Ends this session, if it has not ended."""
        for key in [key for key, one in self._by_hash.items() if one is session]:
            self._end(key)

    def sweep(self, now_s: float) -> None:
        """Ends what is over."""
        for key in [key for key, one in self._by_hash.items() if self._is_over(one, now_s)]:
            self._end(key)

    def _is_over(self, session: Session, now_s: float) -> bool:
        return now_s >= session.ends_s or now_s - session.seen_s >= self._idle_s

    def _end(self, key: bytes) -> None:
        self._by_hash.pop(key).end()


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def is_same(given: str, expected: str) -> bool:
    """Compares secrets in a time that tells nothing."""
    return bool(expected) and hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())
