"""Decisions by Kafka's rules: super users, then ACLs that deny, then ACLs that allow, then the default (KIP-11,
801)."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

import msgspec

from moldau.core.authorization.hosts import address_text
from moldau.core.authorization.index import AclIndex
from moldau.types import Uuid
from moldau.wire.protocol.acls import Acl, AclPermission

MAX_CACHED: Final = 16_384
MAX_CACHED_NAME: Final = 256
"""Decisions about longer names are not cached, because a name may have 32 KiB."""
_PROBE: Final = "hardcode"
"""The name for which Kafka asks when it checks any resource of a type."""


class Rule(enum.Enum):
    """The rule that decided."""

    SUPER_USER = "super user"
    ACL = "ACL"
    NOT_LOADED = "ACLs not loaded"
    """The node has just started."""
    NO_ACL_HOLDS = "no ACL holds"
    """The resource has ACLs, but not for this principal, host and operation: denied."""
    NO_ACL_FOUND = "no ACL found"
    """No ACL concerns the resource: `allow.everyone.if.no.acl.found` decides."""


class Decision(msgspec.Struct, frozen=True):
    """The result and its reason. `acl`: the deciding ACL, with the rule ACL."""

    is_allowed: bool
    rule: Rule
    acl: Acl | None = None


class StandardAuthorizer:
    """Keeps the ACLs and decides by them. A change applies from the next decision on."""

    def __init__(self, super_users: Iterable[str] = (), *, allow_without_acls: bool = False) -> None:
        """`allow_without_acls`: `allow.everyone.if.no.acl.found`."""
        self.super_users = frozenset(super_users)
        self._allow_without_acls = allow_without_acls
        self.is_loaded = False
        """Until the ACLs are loaded, only super users are allowed."""
        self._index = AclIndex()
        self._acls: dict[Uuid, Acl] = {}
        self._copies: dict[Acl, int] = {}
        """The number of additional ids of an ACL that has several. Kafka writes no such ACL, but a record may be
        repeated."""
        self._cache: dict[tuple[str, str, int, int, str | bytes | None], bool] = {}

    def __len__(self) -> int:
        """The number of ACLs."""
        return len(self._acls)

    def change(self, changes: dict[Uuid, Acl | None]) -> None:
        """Adds and removes ACLs. None: the ACL with this id is removed. The first call has all ACLs."""
        self._cache.clear()
        self.is_loaded = True
        for acl_id, acl in changes.items():
            old = self._acls.pop(acl_id, None)
            if old is not None:
                self._remove(old)
            if acl is not None:
                self._acls[acl_id] = acl
                self._add(acl)

    def _add(self, acl: Acl) -> None:
        if self._index.has(acl):
            self._copies[acl] = self._copies.get(acl, 0) + 1
        else:
            self._index.add(acl)

    def _remove(self, acl: Acl) -> None:
        copies = self._copies.pop(acl, 0)
        if copies > 1:
            self._copies[acl] = copies - 1
        elif not copies:
            self._index.remove(acl)

    def authorize(self, principal: str, host: str, operation: int, resource_type: int, name: str | bytes) -> bool:
        """Whether the principal may do the operation on the resource from the address `host`. Cached."""
        key = (principal, host, operation, resource_type, name)
        allowed = self._cache.get(key)
        if allowed is None:
            text = name if isinstance(name, str) else name.decode(errors="replace")
            allowed = self.decide(principal, host, operation, resource_type, text).is_allowed
            self._keep(key, allowed)
        return allowed

    def authorize_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether the principal may do the operation on any resource of the type (KIP-679)."""
        key = (principal, host, operation, resource_type, None)
        allowed = self._cache.get(key)
        if allowed is None:
            allowed = self.decide(principal, host, operation, resource_type, _PROBE).is_allowed
            if not allowed:
                address = address_text(host)
                allowed = self._index.allows_any(principal, address, operation, resource_type)
            self._keep(key, allowed)
        return allowed

    def decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Decision:
        """As `authorize`, with the reason, not cached."""
        if principal in self.super_users:
            return Decision(True, Rule.SUPER_USER)
        if not self.is_loaded:
            return Decision(False, Rule.NOT_LOADED)
        acl = self._index.find(principal, address_text(host), operation, resource_type, name)
        if acl is not None:
            return Decision(acl.permission == AclPermission.ALLOW, Rule.ACL, acl)
        if self._index.names(resource_type, name):
            return Decision(False, Rule.NO_ACL_HOLDS)
        return Decision(self._allow_without_acls, Rule.NO_ACL_FOUND)

    def _keep(self, key: tuple[str, str, int, int, str | bytes | None], allowed: bool) -> None:
        name = key[4]
        if name is not None and len(name) > MAX_CACHED_NAME:
            return
        if len(self._cache) >= MAX_CACHED:
            self._cache.clear()
        self._cache[key] = allowed
