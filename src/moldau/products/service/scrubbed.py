"""Connections that overwrite received bytes after use.

A request may contain a password, and freed memory keeps its bytes until something overwrites them."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

PIECE_BYTES = 16 << 10
"""The size of one read."""
_ZEROS = bytes(PIECE_BYTES)


class ScrubbedProtocol(H11Protocol, asyncio.BufferedProtocol):
    """HTTP/1.1, with its own receive buffer."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._piece = memoryview(bytearray(PIECE_BYTES))

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # for an application whose client reads nothing: a close would wait until it reads what is buffered
        self.app_state = {**self.app_state, "abort": transport.abort}
        super().connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._piece

    def buffer_updated(self, nbytes: int) -> None:
        piece = self._piece[:nbytes]
        try:
            self.data_received(piece)  # type: ignore[arg-type]  # h11 copies it
        finally:
            piece[:] = _ZEROS[:nbytes]
