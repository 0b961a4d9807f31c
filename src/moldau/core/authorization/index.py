"""The ACLs of a cluster as decisions look them up: by principal, then by what they name, then by host.

A decision looks at a few entries of dicts, however many ACLs there are: of the principal and of `User:*`, for the name
itself, for `*`, and for each length that a prefix of that principal has. The rights of one principal, name and host are
one number: a bit for each operation, the denied ones `_DENIED` bits higher.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moldau.core.authorization.hosts import Network, is_network, parse_address, parse_network
from moldau.wire.protocol.acls import (
    IMPLIED_BY,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclOperation,
    AclPatternType,
    AclPermission,
)

_LITERAL: Final = int(AclPatternType.LITERAL)
_PREFIXED: Final = int(AclPatternType.PREFIXED)
_OPERATIONS: Final = 32
_DENIED: Final = _OPERATIONS
"""How much higher the bits of denied operations stand."""

Pattern = tuple[int, str]
"""(pattern type, name)"""


_ALLOWING: Final = tuple(
    sum(1 << each for each in dict.fromkeys((int(AclOperation.ALL), operation, *IMPLIED_BY.get(operation, ()))))
    for operation in range(_OPERATIONS)
)
"""By operation: the bits of what allows it."""
_DENYING: Final = tuple((1 << AclOperation.ALL | 1 << operation) << _DENIED for operation in range(_OPERATIONS))
"""By operation: the bits of what denies it."""


class _Rights:
    """The ACLs of one principal for one kind of resource."""

    __slots__ = ("bits", "lengths", "networks", "sorted_lengths")

    def __init__(self) -> None:
        self.bits: dict[tuple[int, str, str], int] = {}
        """By (pattern type, name, host)."""
        self.networks: dict[Pattern, dict[str, Network]] = {}
        """The networks among the hosts, by their text."""
        self.lengths: dict[int, int] = {}
        """How many hosts the prefixes of each length have."""
        self.sorted_lengths: tuple[int, ...] = ()
        """The longest first."""


class AclIndex:
    """Changed by `add` and `remove`, and asked in between."""

    def __init__(self) -> None:
        self._rights: dict[tuple[int, str], _Rights] = {}
        """By (resource type, principal)."""
        self._counts: dict[tuple[int, int, str], int] = {}
        """How many ACLs name a (resource type, pattern type, name)."""
        self._lengths: dict[int, dict[int, int]] = {}
        """By resource type: how many prefixes of each length there are."""

    def has(self, acl: Acl) -> bool:
        """Whether the ACL was added."""
        rights = self._rights.get((acl.resource_type, acl.principal))
        return rights is not None and bool(rights.bits.get((acl.pattern_type, acl.name, acl.host), 0) & _bit(acl))

    def add(self, acl: Acl) -> None:
        """An ACL that is not there."""
        rights = self._rights.get((acl.resource_type, acl.principal))
        if rights is None:
            rights = self._rights[acl.resource_type, acl.principal] = _Rights()
        place = (acl.pattern_type, acl.name, acl.host)
        if place not in rights.bits:
            _add_host(rights, acl)
        rights.bits[place] = rights.bits.get(place, 0) | _bit(acl)
        named = (acl.resource_type, acl.pattern_type, acl.name)
        count = self._counts.get(named, 0)
        self._counts[named] = count + 1
        if not count and acl.pattern_type == _PREFIXED:
            lengths = self._lengths.setdefault(acl.resource_type, {})
            lengths[len(acl.name)] = lengths.get(len(acl.name), 0) + 1

    def remove(self, acl: Acl) -> None:
        """Takes back an ACL that was added."""
        rights = self._rights[acl.resource_type, acl.principal]
        place = (acl.pattern_type, acl.name, acl.host)
        left = rights.bits[place] & ~_bit(acl)
        if left:
            rights.bits[place] = left
        else:
            del rights.bits[place]
            _remove_host(rights, acl)
            if not rights.bits:
                del self._rights[acl.resource_type, acl.principal]
        named = (acl.resource_type, acl.pattern_type, acl.name)
        self._counts[named] -= 1
        if not self._counts[named]:
            del self._counts[named]
            if acl.pattern_type == _PREFIXED:
                _decrement(self._lengths[acl.resource_type], len(acl.name))

    def find(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Acl | None:
        """The ACL that decides: one that denies, where there is any, else one that allows; None: no ACL does either.
        Of several, the one that names the resource most closely."""
        allowed: Acl | None = None
        for who in (principal, WILDCARD_PRINCIPAL):
            rights = self._rights.get((resource_type, who))
            if rights is None:
                continue
            for pattern in _patterns(rights, name):
                for its_host, bits in _hosts(rights, pattern, host):
                    if bits & _DENYING[operation]:
                        return _acl(resource_type, pattern, who, its_host, operation, bits, AclPermission.DENY)
                    if allowed is None and bits & _ALLOWING[operation]:
                        allowed = _acl(resource_type, pattern, who, its_host, operation, bits, AclPermission.ALLOW)
            if who == WILDCARD_PRINCIPAL:
                break
        return allowed

    def names(self, resource_type: int, name: str) -> bool:
        """Whether any ACL, of whomever, concerns the resource."""
        counts = self._counts
        if (resource_type, _LITERAL, name) in counts:
            return True
        if not name.startswith(WILDCARD) and (resource_type, _LITERAL, WILDCARD) in counts:
            return True
        lengths = self._lengths.get(resource_type, {})
        return any((resource_type, _PREFIXED, name[:length]) in counts for length in lengths if length <= len(name))

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether the ACLs allow the operation to some resource of the kind, which need not exist.

        As in Kafka an operation is not implied by another one here, and a denied prefix takes all allowed names and
        prefixes that begin with it.
        """
        allowed: list[Pattern] = []
        denied: set[Pattern] = set()
        wanted = 1 << AclOperation.ALL | 1 << operation
        for pattern, bits in self._patterns_of(principal, host, resource_type):
            if bits & wanted << _DENIED:
                if pattern == (_LITERAL, WILDCARD):
                    return False
                denied.add(pattern)
            if bits & wanted:
                allowed.append(pattern)
        lengths = sorted({len(name) for kind, name in denied if kind == _PREFIXED})
        return any(pattern == (_LITERAL, WILDCARD) or not _is_taken(pattern, denied, lengths) for pattern in allowed)

    def _patterns_of(self, principal: str, host: str, resource_type: int) -> Iterator[tuple[Pattern, int]]:
        address = parse_address(host)
        for who in (principal,) if principal == WILDCARD_PRINCIPAL else (principal, WILDCARD_PRINCIPAL):
            rights = self._rights.get((resource_type, who))
            for (kind, name, its_host), bits in () if rights is None else rights.bits.items():
                network = None if rights is None else rights.networks.get((kind, name), {}).get(its_host)
                if its_host in (host, WILDCARD) or (network is not None and network.holds(address)):
                    yield (kind, name), bits


def _is_taken(pattern: Pattern, denied: set[Pattern], lengths: list[int]) -> bool:
    kind, name = pattern
    if kind == _LITERAL and pattern in denied:
        return True
    return any((_PREFIXED, name[:length]) in denied for length in lengths if length <= len(name))


def _bit(acl: Acl) -> int:
    shift = 0 if acl.permission == AclPermission.ALLOW else _DENIED
    known = acl.operation if 0 <= acl.operation < _OPERATIONS else AclOperation.UNKNOWN
    return 1 << known << shift


def _add_host(rights: _Rights, acl: Acl) -> None:
    if acl.pattern_type == _PREFIXED:
        rights.lengths[len(acl.name)] = rights.lengths.get(len(acl.name), 0) + 1
        rights.sorted_lengths = tuple(sorted(rights.lengths, reverse=True))
    if is_network(acl.host):
        try:
            network = parse_network(acl.host)
        except ValueError:
            return  # written by a Kafka that takes any text; it holds for nobody there either
        rights.networks.setdefault((acl.pattern_type, acl.name), {})[acl.host] = network


def _remove_host(rights: _Rights, acl: Acl) -> None:
    if acl.pattern_type == _PREFIXED:
        _decrement(rights.lengths, len(acl.name))
        rights.sorted_lengths = tuple(sorted(rights.lengths, reverse=True))
    networks = rights.networks.get((acl.pattern_type, acl.name))
    if networks is not None:
        networks.pop(acl.host, None)
        if not networks:
            del rights.networks[acl.pattern_type, acl.name]


def _decrement(counts: dict[int, int], key: int) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _patterns(rights: _Rights, name: str) -> Iterator[Pattern]:
    """What may concern the name, the closest first."""
    yield _LITERAL, name
    for length in rights.sorted_lengths:
        if length <= len(name):
            yield _PREFIXED, name[:length]
    if not name.startswith(WILDCARD):
        # as in Kafka, a name that begins with an asterisk is no resource of `*`, see docs/decisions/0084
        yield _LITERAL, WILDCARD


def _hosts(rights: _Rights, pattern: Pattern, host: str) -> Iterator[tuple[str, int]]:
    """The hosts of ACLs that hold for a client at `host`, with their bits."""
    for each in (host, WILDCARD):
        bits = rights.bits.get((*pattern, each))
        if bits is not None:
            yield each, bits
    networks = rights.networks.get(pattern)
    if networks:
        address = parse_address(host)
        for text, network in networks.items():
            if network.holds(address):
                yield text, rights.bits[*pattern, text]


def _acl(
    resource_type: int, pattern: Pattern, principal: str, host: str, operation: int, bits: int, permission: int
) -> Acl:
    """The ACL behind the bits that decided: that of the operation itself, where there is one."""
    shift = 0 if permission == AclPermission.ALLOW else _DENIED
    implying = IMPLIED_BY.get(operation, ()) if permission == AclPermission.ALLOW else ()
    named = (operation, AclOperation.ALL, *implying)
    found = next(each for each in named if bits >> shift & 1 << each)
    return Acl(resource_type, pattern[1], pattern[0], principal, host, int(found), int(permission))
