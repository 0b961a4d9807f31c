"""Overwrites receive buffers that their connection has released, to find late readers."""

from __future__ import annotations

import asyncio

from moldau.client.async_driver import AsyncConnection
from moldau.shell.network.server_connection import ServerConnection


def is_kept(protocol: asyncio.BufferedProtocol, buffer: bytearray) -> bool:
    """Whether a connection still needs the data in `buffer`: a server in the middle of a long frame, or a client for a
    response that is incomplete or too long for its reused buffer."""
    if isinstance(protocol, ServerConnection):
        return protocol._frame is not None and buffer is protocol._frame.buffer
    return isinstance(protocol, AsyncConnection) and (buffer is not protocol._short or protocol._filled > 0)
