"""`ClusterAccess`: the bootstrap servers, client id, timeouts and security with which a client reaches a cluster.

It is a plain value; `moldau.transport.access` opens connections. It can be compared, used as the key of a pool, pickled
to Spark tasks, and converted to Spark options or librdkafka settings (`moldau.transport.librdkafka`). None of these
forms contains a secret: see `client.protocol.secrets`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import force_setattr, replace

from moldau.client.protocol.secrets import AccessError as AccessError
from moldau.client.protocol.secrets import Origin
from moldau.client.protocol.security import PLAIN_TEXT, ClientSecurity

DEFAULT_PORT = 9092
MAX_PORT = 65_535
DEFAULT_CLIENT_ID = "moldau"
CONNECT_TIMEOUT_MS = 10_000
REQUEST_TIMEOUT_MS = 30_000
FIRST_CONTACT_TIMEOUT_MS = 10_000
RETRY_TIMEOUT_MS = 300_000
LARGEST_CLIENT_NUMBER = 0x7FFFFFFF
"""Numbers in Kafka's clients and requests have 32 bits."""

BOOTSTRAP_SERVERS, CLIENT_ID = "bootstrap.servers", "client.id"
REQUEST_TIMEOUT, API_TIMEOUT = "request.timeout.ms", "default.api.timeout.ms"
CONNECT_TIMEOUT = "socket.connection.setup.timeout.ms"

Address = tuple[str, int]
"""Host and port."""


class ClusterAccess(msgspec.Struct, frozen=True):
    """`bootstrap_servers`: any brokers of the cluster, as host:port separated by commas. Normalized: every entry has
    its port, duplicates are removed, and the order is kept. Raises ValueError as `parse_bootstrap_servers`.

    `connect_timeout_ms`: for one connection, until the broker has sent its versions. `request_timeout_ms`: for one
    response. `first_contact_timeout_ms`: for all tries while no broker of the cluster has ever answered.
    `retry_timeout_ms`: for all tries of one action after that.
    """

    bootstrap_servers: str
    client_id: str = DEFAULT_CLIENT_ID
    connect_timeout_ms: int = CONNECT_TIMEOUT_MS
    request_timeout_ms: int = REQUEST_TIMEOUT_MS
    first_contact_timeout_ms: int = FIRST_CONTACT_TIMEOUT_MS
    retry_timeout_ms: int = RETRY_TIMEOUT_MS
    security: ClientSecurity = PLAIN_TEXT

    def __post_init__(self) -> None:
        force_setattr(self, "bootstrap_servers", join_addresses(self.addresses()))

    @classmethod
    def of(cls, given: ClusterAccess | str) -> ClusterAccess:
        """Converts the argument of a caller; a text is the bootstrap servers. Raises ValueError."""
        return cls(given) if isinstance(given, str) else given

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, origin: Origin | None = None) -> ClusterAccess:
        """Reads settings by the names of Kafka's clients, and ignores other settings. The response timeout is
        `request.timeout.ms`, or else `default.api.timeout.ms`.

        `origin`: the file of the settings, for references to secrets in it. Raises AccessError.
        """
        security = ClientSecurity.from_properties(properties, origin)
        servers = properties.get(BOOTSTRAP_SERVERS, "").strip()
        if not servers:
            raise AccessError(BOOTSTRAP_SERVERS, "must be set")
        request_timeout = REQUEST_TIMEOUT if REQUEST_TIMEOUT in properties else API_TIMEOUT
        times = {
            "connect_timeout_ms": _milliseconds(properties, CONNECT_TIMEOUT, CONNECT_TIMEOUT_MS),
            "request_timeout_ms": _milliseconds(properties, request_timeout, REQUEST_TIMEOUT_MS),
        }
        try:
            return cls(servers, properties.get(CLIENT_ID, DEFAULT_CLIENT_ID), **times, security=security)
        except ValueError as error:
            raise AccessError(BOOTSTRAP_SERVERS, f"must be host:port,...: {error}") from error

    def __str__(self) -> str:
        return self.bootstrap_servers

    def __repr__(self) -> str:
        """Shows only the fields of _SHOWN, none of which is a secret."""
        others = (f", {name}={getattr(self, name)!r}" for name in _SHOWN if self._says(name))
        return f"{type(self).__name__}({self.bootstrap_servers!r}{''.join(others)})"

    def addresses(self) -> list[Address]:
        """The addresses of the bootstrap servers, in their order."""
        return parse_bootstrap_servers(self.bootstrap_servers)

    def named(self, client_id: str) -> ClusterAccess:
        """The access with this client id, unless it already has one."""
        return replace(self, client_id=client_id) if self.client_id == DEFAULT_CLIENT_ID else self

    def under_token(self, supply: Callable[[], str], who: str) -> ClusterAccess:
        """The same cluster with a login by the bearer token that `supply` returns for each login, such as that of a
        user of a service. `who` names the holder in errors. Raises AccessError if the connections have no SASL."""
        return replace(self, security=self.security.with_bearer(supply, who))

    def properties(self) -> dict[str, str]:
        """The properties for `from_properties` in another process, with references to secrets. Raises AccessError for a
        secret that is only in memory."""
        own = {
            CLIENT_ID: self.client_id,
            CONNECT_TIMEOUT: self.connect_timeout_ms,
            REQUEST_TIMEOUT: self.request_timeout_ms,
        }
        texts = {name: str(value) for name, value in own.items()}
        return {BOOTSTRAP_SERVERS: self.bootstrap_servers, **texts, **self.security.properties()}

    def spark_options(self) -> dict[str, str]:
        """The options of `format("moldau")` for reading or writing, without those at their default, and with references
        to secrets. Raises AccessError for a secret that is only in memory."""
        said = {option: getattr(self, name) for name, option in _SPARK_OPTIONS.items() if self._says(name)}
        secured = {f"kafka.{name}": text for name, text in self.security.properties().items()}
        own = {name: str(said[name]) for name in said}
        return {f"kafka.{BOOTSTRAP_SERVERS}": self.bootstrap_servers, **own, **secured}

    def _says(self, name: str) -> bool:
        """Whether the field differs from its default."""
        return bool(getattr(self, name) != _DEFAULTS[name])


_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(ClusterAccess)}
_SHOWN = (
    "client_id",
    "connect_timeout_ms",
    "request_timeout_ms",
    "first_contact_timeout_ms",
    "retry_timeout_ms",
    "security",
)
_SPARK_OPTIONS = {
    "client_id": f"kafka.{CLIENT_ID}",
    "connect_timeout_ms": f"kafka.{CONNECT_TIMEOUT}",
    "request_timeout_ms": f"kafka.{REQUEST_TIMEOUT}",
    "first_contact_timeout_ms": "firstContactTimeoutMs",
    "retry_timeout_ms": "retryTimeoutMs",
}


def parse_bootstrap_servers(bootstrap_servers: str) -> list[Address]:
    """[(host, port)] of "host:port,host:port", without duplicates. IPv6 addresses are in brackets.

    Raises ValueError for an empty text, an invalid port, and a URL.
    """
    servers: list[Address] = []
    for text in (text.strip() for text in bootstrap_servers.split(",")):
        if not text:
            continue
        host, colon, port = text.rpartition(":")
        if not colon or text.endswith("]"):
            host, port = text, str(DEFAULT_PORT)
        if not port.isdigit() or int(port) > MAX_PORT or "/" in host:
            raise ValueError(f"bootstrap servers: {text!r} is not host:port")
        servers.append((host.strip("[]"), int(port)))
    if not servers:
        raise ValueError("bootstrap servers: none is named")
    return list(dict.fromkeys(servers))


def join_addresses(addresses: list[Address]) -> str:
    """The text for `parse_bootstrap_servers`."""
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)


def _milliseconds(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,18}", text.strip()) or int(text) == 0:
        raise AccessError(name, f"must be a whole number above 0, not {text!r}")
    if int(text) > LARGEST_CLIENT_NUMBER:
        raise AccessError(name, f"must be at most {LARGEST_CLIENT_NUMBER}, not {text}")
    return int(text)
