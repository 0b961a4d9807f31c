"""The ACLs of a cluster, indexed for decisions: by principal, then by resource pattern, then by host.

A decision looks up a few dict entries, however many ACLs exist: for the principal and `User:*`, the name, `*`, each
prefix length of that principal and each network length. The rights of one principal, name and host are one number with
a bit for each operation. The denied ones are `_DENIED` bits higher.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from moldau.core.authorization.hosts import Address, Network, is_network, parse_address, parse_network
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
"""The distance in bits between an allowed operation and the same denied one."""

_Key = TypeVar("_Key")
Pattern = tuple[int, str]
"""(pattern type, name)"""


_ALLOWING: Final = tuple(
    sum(1 << each for each in dict.fromkeys((int(AclOperation.ALL), operation, *IMPLIED_BY.get(operation, ()))))
    for operation in range(_OPERATIONS)
)
"""By operation: the bits that allow it."""
_DENYING: Final = tuple((1 << AclOperation.ALL | 1 << operation) << _DENIED for operation in range(_OPERATIONS))
"""By operation: the bits that deny it."""


class _Hosts:
    """The ACLs of one principal and pattern, if they differ between hosts."""

    __slots__ = ("bits", "networks")

    def __init__(self) -> None:
        self.bits: dict[str, int] = {}
        """By host, including `*`."""
        self.networks: dict[tuple[int, int], dict[int, list[str]]] = {}
        """By (bits of an address, mask), then by first address: the host texts that name this network."""

    def holding(self, host: str, address: Address | None) -> Iterator[tuple[str, int]]:
        """The hosts of ACLs that match a client at `host`, with their bits."""
        for each in (host, WILDCARD):
            if each in self.bits:
                yield each, self.bits[each]
        for (bits, mask), by_first in self.networks.items():
            if address is not None and bits == address.bits:
                for text in by_first.get(address.value & mask, ()):
                    yield text, self.bits[text]


class _Rights:
    """The ACLs of one principal for one kind of resource."""

    __slots__ = ("denied_count", "lengths", "patterns", "sorted_lengths")

    def __init__(self) -> None:
        self.patterns: dict[Pattern, int | _Hosts] = {}
        """The bits alone if all ACLs of a pattern are for every host, as most are."""
        self.denied_count = 0
        """The number of ACLs that deny."""
        self.lengths: dict[int, int] = {}
        """The number of prefixes of each length."""
        self.sorted_lengths: tuple[int, ...] = ()
        """Longest first."""


class AclIndex:
    """An index that `add` and `remove` keep."""

    def __init__(self) -> None:
        self._rights: dict[tuple[int, str], _Rights] = {}
        """By (resource type, principal)."""
        self._counts: dict[tuple[int, int, str], int] = {}
        """The number of ACLs for each (resource type, pattern type, name)."""
        self._lengths: dict[int, dict[int, int]] = {}
        """By resource type: the number of prefixes of each length."""

    def has(self, acl: Acl) -> bool:
        """Whether the ACL was added."""
        rights = self._rights.get((acl.resource_type, acl.principal))
        found = None if rights is None else rights.patterns.get((acl.pattern_type, acl.name))
        if isinstance(found, _Hosts):
            return bool(found.bits.get(acl.host, 0) & _bit(acl))
        return found is not None and acl.host == WILDCARD and bool(found & _bit(acl))

    def add(self, acl: Acl) -> None:
        """Adds an ACL that the index does not have."""
        rights = self._rights.get((acl.resource_type, acl.principal))
        if rights is None:
            rights = self._rights[acl.resource_type, acl.principal] = _Rights()
        pattern = (acl.pattern_type, acl.name)
        found = rights.patterns.get(pattern)
        if found is None and acl.pattern_type == _PREFIXED and _increment(rights.lengths, len(acl.name)):
            rights.sorted_lengths = tuple(sorted(rights.lengths, reverse=True))
        if not isinstance(found, _Hosts) and acl.host == WILDCARD:
            rights.patterns[pattern] = (found or 0) | _bit(acl)
        else:
            rights.patterns[pattern] = _with_host(found, acl)
        rights.denied_count += acl.permission != AclPermission.ALLOW
        named = (acl.resource_type, *pattern)
        self._counts[named] = self._counts.get(named, 0) + 1
        if self._counts[named] == 1 and acl.pattern_type == _PREFIXED:
            _increment(self._lengths.setdefault(acl.resource_type, {}), len(acl.name))

    def remove(self, acl: Acl) -> None:
        """Removes an ACL that was added."""
        rights = self._rights[acl.resource_type, acl.principal]
        pattern = (acl.pattern_type, acl.name)
        found = rights.patterns[pattern]
        left = _without_host(found, acl) if isinstance(found, _Hosts) else (found & ~_bit(acl)) or None
        if left is not None:
            rights.patterns[pattern] = left
        else:
            del rights.patterns[pattern]
            if acl.pattern_type == _PREFIXED and _decrement(rights.lengths, len(acl.name)):
                rights.sorted_lengths = tuple(sorted(rights.lengths, reverse=True))
            if not rights.patterns:
                del self._rights[acl.resource_type, acl.principal]
        rights.denied_count -= acl.permission != AclPermission.ALLOW
        named = (acl.resource_type, *pattern)
        if _decrement(self._counts, named) and acl.pattern_type == _PREFIXED:
            _decrement(self._lengths[acl.resource_type], len(acl.name))

    def find(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Acl | None:
        """The deciding ACL: one that denies, else one that allows; None if no ACL applies. Of several, the one with the
        closest resource name."""
        allowed: Acl | None = None
        denying, allowing = _DENYING[operation], _ALLOWING[operation]
        for who in dict.fromkeys((principal, WILDCARD_PRINCIPAL)):
            rights = self._rights.get((resource_type, who))
            if rights is None:
                continue
            for pattern, found in _patterns(rights, name):
                hosts = found.holding(host, parse_address(host)) if isinstance(found, _Hosts) else ((WILDCARD, found),)
                for its_host, bits in hosts:
                    if bits & denying:
                        return _acl(resource_type, pattern, who, its_host, operation, bits, AclPermission.DENY)
                    if allowed is None and bits & allowing:
                        allowed = _acl(resource_type, pattern, who, its_host, operation, bits, AclPermission.ALLOW)
        return allowed

    def names(self, resource_type: int, name: str) -> bool:
        """Whether any ACL of any principal applies to the resource."""
        counts = self._counts
        if (resource_type, _LITERAL, name) in counts:
            return True
        if not name.startswith(WILDCARD) and (resource_type, _LITERAL, WILDCARD) in counts:
            return True
        lengths = self._lengths.get(resource_type, {})
        return any((resource_type, _PREFIXED, name[:length]) in counts for length in lengths if length <= len(name))

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether the ACLs allow the operation on some resource of the type, existing or not.

        As in Kafka, no operation implies another one here, and a denied prefix covers all allowed names and prefixes
        that begin with it.
        """
        both = (self._rights.get((resource_type, who)) for who in dict.fromkeys((principal, WILDCARD_PRINCIPAL)))
        every = [rights for rights in both if rights is not None]
        is_none_denied = not any(rights.denied_count for rights in every)
        allowed: list[Pattern] = []
        denied: set[Pattern] = set()
        wanted = 1 << AclOperation.ALL | 1 << operation
        for pattern, bits in _all_patterns(every, host):
            if bits & wanted << _DENIED:
                if pattern == (_LITERAL, WILDCARD):
                    return False
                denied.add(pattern)
            if bits & wanted:
                if is_none_denied:
                    return True
                allowed.append(pattern)
        lengths = sorted({len(name) for kind, name in denied if kind == _PREFIXED})
        return any(pattern == (_LITERAL, WILDCARD) or not _is_taken(pattern, denied, lengths) for pattern in allowed)


def _all_patterns(every: list[_Rights], host: str) -> Iterator[tuple[Pattern, int]]:
    address = parse_address(host)
    for rights in every:
        for pattern, found in rights.patterns.items():
            if isinstance(found, _Hosts):
                for _, bits in found.holding(host, address):
                    yield pattern, bits
            else:
                yield pattern, found


def _is_taken(pattern: Pattern, denied: set[Pattern], lengths: list[int]) -> bool:
    kind, name = pattern
    if kind == _LITERAL and pattern in denied:
        return True
    return any((_PREFIXED, name[:length]) in denied for length in lengths if length <= len(name))


def _bit(acl: Acl) -> int:
    shift = 0 if acl.permission == AclPermission.ALLOW else _DENIED
    known = acl.operation if 0 <= acl.operation < _OPERATIONS else AclOperation.UNKNOWN
    return 1 << known << shift


def _with_host(found: int | _Hosts | None, acl: Acl) -> _Hosts:
    hosts = found if isinstance(found, _Hosts) else _Hosts()
    if isinstance(found, int):
        hosts.bits[WILDCARD] = found
    network = None if acl.host in hosts.bits else _network(acl.host)
    if network is not None:
        by_first = hosts.networks.setdefault((network.bits, network.mask), {})
        by_first.setdefault(network.first, []).append(acl.host)
    hosts.bits[acl.host] = hosts.bits.get(acl.host, 0) | _bit(acl)
    return hosts


def _without_host(hosts: _Hosts, acl: Acl) -> _Hosts | None:
    hosts.bits[acl.host] &= ~_bit(acl)
    if hosts.bits[acl.host]:
        return hosts
    del hosts.bits[acl.host]
    network = _network(acl.host)
    if network is not None:
        by_first = hosts.networks[network.bits, network.mask]
        by_first[network.first].remove(acl.host)
        if not by_first[network.first]:
            del by_first[network.first]
        if not by_first:
            del hosts.networks[network.bits, network.mask]
    return hosts if hosts.bits else None


def _network(host: str) -> Network | None:
    """The network of a host; None for other hosts. Also None for a malformed one, which some Kafka versions wrote: it
    matches no client in Kafka either."""
    try:
        return parse_network(host) if is_network(host) else None
    except ValueError:
        return None


def _increment(counts: dict[_Key, int], key: _Key) -> bool:
    """Increments the count. Returns whether the key is new."""
    counts[key] = counts.get(key, 0) + 1
    return counts[key] == 1


def _decrement(counts: dict[_Key, int], key: _Key) -> bool:
    """Decrements the count. Returns whether the key is gone."""
    counts[key] -= 1
    if counts[key]:
        return False
    del counts[key]
    return True


def _patterns(rights: _Rights, name: str) -> Iterator[tuple[Pattern, int | _Hosts]]:
    """The patterns that match the name, closest first."""
    patterns = rights.patterns
    found = patterns.get((_LITERAL, name))
    if found is not None:
        yield (_LITERAL, name), found
    size = len(name)
    for length in rights.sorted_lengths:
        if length <= size:
            pattern = (_PREFIXED, name[:length])
            found = patterns.get(pattern)
            if found is not None:
                yield pattern, found
    # as in Kafka, `*` does not match a name that begins with an asterisk, see docs/decisions/0084
    found = None if name.startswith(WILDCARD) else patterns.get((_LITERAL, WILDCARD))
    if found is not None:
        yield (_LITERAL, WILDCARD), found


def _acl(
    resource_type: int, pattern: Pattern, principal: str, host: str, operation: int, bits: int, permission: int
) -> Acl:
    """The ACL that set the deciding bits, preferably one that names the operation itself."""
    shift = 0 if permission == AclPermission.ALLOW else _DENIED
    implying = IMPLIED_BY.get(operation, ()) if permission == AclPermission.ALLOW else ()
    named = (operation, AclOperation.ALL, *implying)
    found = next(each for each in named if bits >> shift & 1 << each)
    return Acl(resource_type, pattern[1], pattern[0], principal, host, int(found), int(permission))
