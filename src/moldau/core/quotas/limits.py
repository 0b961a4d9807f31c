"""The entity of a quota, and which of several quotas applies (KIP-13, 55, 546)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import lru_cache

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"
LOOPBACK = ("127.0.0.1", "::1")
"""The addresses of `localhost`."""
MAX_KNOWN_SPELLINGS = 16_384
"""The most cached spellings. Each change of a quota parses the addresses of all, which takes microseconds each."""

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

QuotaEntity = tuple[tuple[str, str | None], ...]
"""(type, name) pairs, sorted by type; the name None is the default of the type."""

ClientQuotas = Mapping[QuotaEntity, Mapping[str, float]]
"""The quotas in a metadata image."""

Share = tuple[str, str]
"""(user, client id) of the clients that share one quota; "" if all users or all client ids do."""


def quota_entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    """The entity of a client quota as a key: (type, name) pairs, ordered by type. None: the default."""
    return tuple(sorted(parts.items()))


def user_of(principal: str) -> str:
    """The name in "User:name"."""
    return principal.partition(":")[2]


def client_limit(quotas: ClientQuotas, key: str, user: str, client_id: str) -> tuple[float, Share] | None:
    """The limit of `key` for a client, and the entity that shares it; None without a limit. The most specific one
    applies: user and client id, then user, then client id; names before defaults."""
    for entity, share in (
        (((CLIENT_ID, client_id), (USER, user)), (user, client_id)),
        (((CLIENT_ID, None), (USER, user)), (user, client_id)),
        (((USER, user),), (user, "")),
        (((CLIENT_ID, client_id), (USER, None)), (user, client_id)),
        (((CLIENT_ID, None), (USER, None)), (user, client_id)),
        (((USER, None),), (user, "")),
        (((CLIENT_ID, client_id),), ("", client_id)),
        (((CLIENT_ID, None),), ("", client_id)),
    ):
        if client_id == "" and entity[0][0] == CLIENT_ID:
            continue  # no quota of client ids applies to a client without a client id
        values = quotas.get(entity)
        if values is not None and key in values:
            return values[key], share
    return None


@lru_cache(maxsize=MAX_KNOWN_SPELLINGS)
def one_spelling(address: str) -> str:
    """`address` as connections have it: IPv6 short and in lower case, IPv4 over IPv6 as IPv4. Raises ValueError for a
    malformed address."""
    parsed = ipaddress.ip_address(address)
    inner = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(inner or parsed)


def address_quotas(quotas: ClientQuotas) -> dict[QuotaEntity, Mapping[str, float]]:
    """The quotas of addresses for `ip_limit`, each under one spelling. Of two spellings, that of connections counts."""
    found: dict[QuotaEntity, Mapping[str, float]] = {}
    for entity, values in quotas.items():
        kind, name = entity[0]
        if kind != IP:
            continue
        try:
            key = entity if name is None else ((IP, one_spelling(name)),)
        except ValueError:
            key = entity  # localhost, which ip_limit finds by name
        if key == entity or key not in quotas:
            found[key] = values
    return found


def ip_limit(quotas: ClientQuotas, address: str) -> float | None:
    """The allowed connections a second from `address`; None without a limit."""
    for name in (address, "localhost" if address in LOOPBACK else address, None):
        values = quotas.get(((IP, name),))
        if values is not None and CONNECTION_CREATION_RATE in values:
            return values[CONNECTION_CREATION_RATE]
    return None
