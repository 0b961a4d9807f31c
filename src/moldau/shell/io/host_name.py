"""The name by which other machines reach this one, if no setting has it."""

from __future__ import annotations

import socket
from ipaddress import ip_address

from moldau.core.config.listeners import is_wildcard

LOCALHOST = "localhost"


def host_name() -> str:
    """The canonical name of this machine, as in Java: the name of its host name's address, if that name resolves to the
    address, else the address. If the address is named localhost, or if the host name has no address: the host name.

    Asks the name service, and may wait for it.
    """
    name = socket.gethostname()
    try:
        address = str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return name
    try:
        canonical = socket.getnameinfo((address, 0), socket.NI_NAMEREQD)[0]
        if is_loopback_name(canonical):
            return name
        if address in (found[4][0] for found in socket.getaddrinfo(canonical, None, type=socket.SOCK_STREAM)):
            return canonical
    except OSError:
        pass
    return name if is_loopback_name(address) else address


def registered_host(host: str) -> str:
    """The host that others get for a listener bound to `host`: for all interfaces, the name of this machine."""
    return host_name() if is_wildcard(host) else host


def is_loopback_name(host: str) -> bool:
    """Whether `host`, a name or an address, always means the local machine."""
    if host == LOCALHOST or host.startswith(LOCALHOST + "."):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
