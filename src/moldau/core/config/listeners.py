"""Listeners: the addresses that a node binds, and the addresses that clients get."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from moldau.core.config.setting import invalid_config, invalid_value
from moldau.wire.protocol.security_protocols import SECURITY_PROTOCOLS

_ENDPOINT = re.compile(r"([^:/]+)://(\[[0-9a-fA-F:.%\w]*\]|[^:\[\]]*):(-?[0-9]+)")
LISTENER_LIMITS = ("max.connections", "max.connection.creation.rate")
"""The limits that a listener may override with the prefix `listener.name.NAME.` (KIP-402, 612)."""


def is_wildcard(host: str) -> bool:
    """Whether `host` binds every interface: empty, 0.0.0.0 or `::`. No client can connect to such a host."""
    return not host.strip("0:.")


class Endpoint(msgspec.Struct, frozen=True):
    """`name://host:port`. An empty host: every interface. Port 0: the system chooses."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_endpoints(setting: str, items: tuple[str, ...]) -> tuple[Endpoint, ...]:
    """The endpoints of a listener list. Raises error 40 for a malformed one and for a repeated name."""
    endpoints = tuple(_parse_endpoint(setting, item) for item in items)
    names = [endpoint.name for endpoint in endpoints]
    if len(names) != len(dict.fromkeys(names)):
        raise invalid_value(setting, ",".join(items), "Each listener must have a different name")
    return endpoints


def _parse_endpoint(setting: str, text: str) -> Endpoint:
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise invalid_value(setting, text, "a listener is written NAME://HOST:PORT")
    name, host, port = match.groups()
    if not 0 <= int(port[:7]) <= 65_535:
        raise invalid_value(setting, text, "a port is between 0 and 65535")
    # Kafka: listener names are compared in upper case
    return Endpoint(name=name.upper(), host=host.strip("[]"), port=int(port))


def parse_servers(setting: str, items: tuple[str, ...]) -> tuple[Endpoint, ...]:
    """The addresses of a list of HOST:PORT, without names. Raises error 40 for a malformed one."""
    servers = []
    for item in items:
        host, _, port = item.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port[:7]) <= 65_535:
            raise invalid_value(setting, ",".join(items), "a server is written HOST:PORT")
        servers.append(Endpoint("", host.strip("[]"), int(port)))
    return tuple(servers)


def check_listeners(listeners: tuple[Endpoint, ...]) -> None:
    """Raises error 40 if two listeners have the same port on the same host."""
    if not listeners:
        raise invalid_config("listeners names no listener for clients")
    seen: dict[tuple[str, int], str] = {}
    for endpoint in listeners:
        if endpoint.port == 0:
            continue
        other = seen.setdefault((endpoint.host, endpoint.port), endpoint.name)
        if other != endpoint.name:
            raise invalid_config(f"listeners: {other} and {endpoint.name} share port {endpoint.port}")


def check_advertised(advertised: tuple[Endpoint, ...], listeners: tuple[Endpoint, ...]) -> None:
    """Raises error 40 for an advertised endpoint that is unreachable or has no listener."""
    names = [endpoint.name for endpoint in listeners]
    for endpoint in advertised:
        if is_wildcard(endpoint.host):
            raise invalid_config(
                f"advertised.listeners cannot use the nonroutable meta-address {endpoint.host or 'of every interface'}."
                " Use a routable IP address."
            )
        if endpoint.name not in names:
            raise invalid_config(
                "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners."
                f" Found {','.join(item.name for item in advertised)}."
            )


def check_registered(registered: tuple[Endpoint, ...], inter_broker: str) -> None:
    """Raises error 40 if other brokers would not find the listener `inter_broker`, as Apache Kafka does. `registered`:
    the setting with the listeners, `advertised.listeners` or `listeners`."""
    names = ",".join(endpoint.name for endpoint in registered)
    if all(endpoint.name != inter_broker for endpoint in registered):
        raise invalid_config(
            "inter.broker.listener.name must be a listener name defined in advertised.listeners, and is "
            f"{inter_broker}. The valid options based on currently configured listeners are {names}"
        )


def check_routable(registered: tuple[Endpoint, ...]) -> None:
    """Raises error 40 for a listener of 0.0.0.0 or `::` without an advertised address: other nodes would connect to
    themselves. Apache Kafka accepts `::`."""
    for endpoint in registered:
        if endpoint.host and is_wildcard(endpoint.host):
            raise invalid_config(
                f"advertised.listeners cannot use the nonroutable meta-address {endpoint.host}. Use a routable IP "
                f"address. ({endpoint} in listeners has no advertised.listeners; a listener without a host, "
                f"{endpoint.name}://:{endpoint.port}, is advertised with the name of its machine)"
            )


def parse_protocol_map(text: str) -> dict[str, str]:
    """`listener.security.protocol.map`: listener name (upper case) to security protocol. Raises error 40."""
    protocols: dict[str, str] = {}
    for item in text.split(","):
        name, colon, protocol = item.strip().partition(":")
        if not colon or protocol not in SECURITY_PROTOCOLS:
            raise invalid_value("listener.security.protocol.map", text, "entries are written NAME:PROTOCOL")
        protocols[name.upper()] = protocol
    return protocols


def check_protocols(listeners: tuple[Endpoint, ...], protocols: Mapping[str, str]) -> None:
    """Raises error 40 for a listener without a protocol."""
    for endpoint in listeners:
        protocol = protocols.get(endpoint.name)
        if protocol is None:
            raise invalid_config(f"No security protocol defined for listener {endpoint.name}")
