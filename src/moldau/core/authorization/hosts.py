"""Networks as the host of an ACL (KIP-1276): `10.0.0.0/8`, `2001:db8::/32`.

Accepts the same texts as Apache Kafka 4.4, compared with its class.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

import msgspec

_IPV4: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})/([0-9]{1,2})")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,10}")
_IPV4_BITS: Final = 32
_IPV6_BITS: Final = 128


class Network(msgspec.Struct, frozen=True):
    """The addresses that equal `first` in the bits of `mask`. `bits`: 32 or 128."""

    bits: int
    first: int
    mask: int


class Address(msgspec.Struct, frozen=True):
    """An address as a number. `bits`: 32 or 128."""

    bits: int
    value: int


def is_network(host: str) -> bool:
    """Whether the host of an ACL is a network."""
    return "/" in host


def parse_network(text: str) -> Network:
    """Raises ValueError for a text that Kafka does not accept as a network."""
    return _ipv6_network(text) if ":" in text else _ipv4_network(text)


def parse_address(host: str) -> Address | None:
    """The address of a client. None if it belongs to no network, such as 0.0.0.0 in Kafka."""
    try:
        if ":" not in host:
            value = int(IPv4Address(host))
            return Address(_IPV4_BITS, value) if value else None
        return None if "%" in host else Address(_IPV6_BITS, int(IPv6Address(host)))
    except AddressValueError:
        return None


def address_text(host: str) -> str:
    """The address of a client as Kafka compares it with the hosts of ACLs. IPv6: in full, without leading zeros. IPv4
    over IPv6: as IPv4."""
    if ":" not in host:
        return host
    plain, percent, scope = host.partition("%")
    try:
        address = IPv6Address(plain)
    except AddressValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    groups = (f"{int(group, 16):x}" for group in address.exploded.split(":"))
    return ":".join(groups) + percent + scope


def _ipv4_network(text: str) -> Network:
    found = _IPV4.fullmatch(text)
    if found is None:
        raise ValueError(f"Could not parse [{text}]")
    *octets, length = map(int, found.groups())
    for octet in octets:
        _check_range(octet, 255)
    _check_range(length, _IPV4_BITS)
    mask = _mask(_IPV4_BITS, length)
    return Network(_IPV4_BITS, int.from_bytes(bytes(octets), "big") & mask, mask)


def _check_range(value: int, highest: int) -> None:
    if value > highest:
        raise ValueError(f"Value [{value}] not in range [0,{highest}]")


def _ipv6_network(text: str) -> Network:
    address, slash, prefix = text.partition("/")
    if not slash:
        raise ValueError(f"Could not parse [{text}] - missing prefix length")
    if not _NUMBER.fullmatch(prefix):
        raise ValueError(f"Could not parse [{text}] - invalid prefix length")
    length = int(prefix)
    if not 0 <= length <= _IPV6_BITS:
        raise ValueError(f"Could not parse [{text}] - prefix length must be between 0 and 128")
    bare = address[1:-1] if address.startswith("[") and address.endswith("]") else address
    try:
        parsed = IPv6Address(bare.partition("%")[0])
    except AddressValueError:
        raise ValueError(f"Could not parse [{address}]") from None
    if parsed.ipv4_mapped is not None:
        raise ValueError(f"Could not parse [{address}] - not an IPv6 address")
    mask = _mask(_IPV6_BITS, length)
    return Network(_IPV6_BITS, int(parsed) & mask, mask)


def _mask(bits: int, length: int) -> int:
    return (1 << bits) - (1 << (bits - length))
