"""Tries one login of each address at a time, in the order of arrival.

Behind a proxy all people have one address, so the others wait, within bounds. Use from the loop of a service.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from moldau.products.service.logins.source import NoAnswer

MAX_TRIES = 64
"""How many logins are tried at the same time, one of each address; others get 503. A broker answers a wrong password up
to 10 s late, which must not delay a right one."""
MAX_WAITING = 16
"""How many logins, over all addresses, wait for another login of their address; others get 503."""
WAIT_S = 30.0
"""How long a login waits; then it gets 503."""
TOO_MANY = "Too many logins at once. Try again in a moment."


class _Line:
    """The logins of one address. `length`: the login that is tried plus those that wait."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.length = 0


class Turns:
    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    @property
    def waiting(self) -> int:
        return sum(line.length for line in self._lines.values()) - len(self._lines)

    @asynccontextmanager
    async def of(self, address: str) -> AsyncGenerator[None]:
        """Waits for the turn of a login of this address, and holds it. Raises NoAnswer if too many logins are tried or
        wait, and after WAIT_S."""
        line = self._lines.get(address)
        if line is None:
            if len(self._lines) >= MAX_TRIES:
                raise NoAnswer(TOO_MANY)
            line = self._lines[address] = _Line()
        elif self.waiting >= MAX_WAITING:
            raise NoAnswer(TOO_MANY)
        line.length += 1
        try:
            try:
                async with asyncio.timeout(WAIT_S):
                    await line.turn.acquire()
            except TimeoutError:
                raise NoAnswer(TOO_MANY) from None
            try:
                yield
            finally:
                line.turn.release()
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[address]
