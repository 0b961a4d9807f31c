"""Responses whose body comes in pieces, to clients that may read slowly or not at all."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import AsyncIterator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

STALLED_S = 60.0
"""How long a client may read nothing while a piece waits for it."""


class PiecesResponse(Response, abc.ABC):
    """Sends `pieces`. A subclass gives them and frees its resources in `ended`."""

    def __init__(self, media_type: str, stalled_s: float = STALLED_S) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._stalled_s = stalled_s

    @abc.abstractmethod
    def pieces(self) -> AsyncIterator[bytes]:
        """The body."""

    @abc.abstractmethod
    async def ended(self) -> None:
        """Called once, also if the client has gone."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for piece in self.pieces():
                async with asyncio.timeout(self._stalled_s):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            # a close would wait until the client reads what is buffered
            scope["state"]["abort"]()
        finally:
            await self.ended()
