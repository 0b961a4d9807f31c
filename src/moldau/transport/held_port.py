"""Reserves a port for a server that starts later, or starts again."""

from __future__ import annotations

import socket


def hold_port(host: str, port: int = 0) -> socket.socket:
    """Binds a socket that never listens. Port 0: any port. "": every address. Raises OSError if the port cannot be
    bound.

    Until the server starts, clients are refused as by any closed port, and the system gives the port to no other
    process. The server binds the same port: both sockets set SO_REUSEADDR, and only the server's listens.
    """
    # not getaddrinfo: it imports the tables of Unicode names, and nearly every host is an address
    held = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host.strip("[]") or "0.0.0.0", port))
    except OSError:
        held.close()
        raise
    return held
