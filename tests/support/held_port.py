"""A port of a server that is still to start, in a process of its own."""

from __future__ import annotations

import socket


def held_port() -> socket.socket:
    """A socket whose port the kernel gives to nobody else while it is open, and at which a server may listen all the
    same: both say SO_REUSEADDR, as every server does, and this one never listens."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def port_of(held: socket.socket) -> int:
    port: int = held.getsockname()[1]
    return port
