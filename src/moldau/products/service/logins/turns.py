"""Tries one login of each address at a time, in the order of arrival.

Behind a proxy all people have one address, so others wait, within bounds. Used from the loop of a service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from moldau.products.service.logins.source import NoAnswer

MAX_TRIES = 64
"""Logins that are tried at the same time, one of each address; others get 503. A broker answers a wrong password late,
up to 10 s: that must not keep a right one waiting."""
MAX_WAITING = 16
"""Logins of all addresses that wait for another one of their address; others get 503."""
WAIT_S = 30.0
"""How long one waits; then it gets 503."""
TOO_MANY = "Too many logins at once. Try again in a moment."


class _Line:
    """Of one address. `length`: the login that is tried, and those that wait."""

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
        """The turn of a login of this address, which others wait for. Raises NoAnswer where too many are tried or wait,
        and after WAIT_S."""
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
