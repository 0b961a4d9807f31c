"""Reserves a port for a server that starts later, or starts again."""

from __future__ import annotations

import socket


def hold_port(host: str, port: int = 0) -> socket.socket:
    """A socket that is bound and never listens; port 0 is any. "" is every address. Raises OSError where it cannot be
    had.

    Meanwhile clients are refused, as by any closed port, and the system gives the port to nobody else. The server binds
    beside it: both say SO_REUSEADDR, and only one of the two listens.
    """
    # not getaddrinfo: it imports the tables of Unicode names for what is an address nearly always
    held = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host.strip("[]") or "0.0.0.0", port))
    except OSError:
        held.close()
        raise
    return held
