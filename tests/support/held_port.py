"""A port for a server that starts later, in another process."""

from __future__ import annotations

import socket

from moldau.transport.held_port import hold_port


def held_port() -> socket.socket:
    """A socket whose port of 127.0.0.1 the kernel gives to no other process while it is open; see `hold_port`."""
    return hold_port("127.0.0.1")


def port_of(held: socket.socket) -> int:
    port: int = held.getsockname()[1]
    return port
