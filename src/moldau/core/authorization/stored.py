"""All ACLs of the metadata by id, and an index for filters.

The controller builds the index at the first use and updates it from then on. A copy has no index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

from moldau.core.authorization.filters import names_acl
from moldau.types import Pausing, Uuid
from moldau.wire.protocol.acls import WILDCARD, Acl, AclFilter, AclOperation, AclPatternType, AclPermission
from moldau.wire.protocol.acls import AclResourceType as ResourceType

AT_ONCE: Final = 16
"""ACLs between two pauses."""

_Key = TypeVar("_Key")
_Kind = tuple[int, int, int, int]
"""(resource type, pattern type, operation, permission)"""


class AclCatalogue:
    """The ACLs by the fields of filters. An ACL with several ids is here once."""

    def __init__(self) -> None:
        self.ids: dict[Acl, dict[Uuid, None]] = {}
        self._by_name: dict[str, dict[Acl, None]] = {}
        self._by_principal: dict[str, dict[Acl, None]] = {}
        self._by_host: dict[str, dict[Acl, None]] = {}
        """Without ACLs for all hosts. These are most ACLs, so an index of them would not narrow a search."""
        self._by_kind: dict[_Kind, dict[Acl, None]] = {}
        self._lengths: dict[int, int] = {}
        """The number of names of each length, for prefixes."""

    def add(self, acl_id: Uuid, acl: Acl) -> None:
        """Adds an ACL with a new id."""
        ids = self.ids.setdefault(acl, {})
        ids[acl_id] = None
        if len(ids) > 1:
            return
        if acl.name not in self._by_name:
            self._lengths[len(acl.name)] = self._lengths.get(len(acl.name), 0) + 1
        self._by_name.setdefault(acl.name, {})[acl] = None
        self._by_principal.setdefault(acl.principal, {})[acl] = None
        if acl.host != WILDCARD:
            self._by_host.setdefault(acl.host, {})[acl] = None
        self._by_kind.setdefault(_kind_of(acl), {})[acl] = None

    def remove(self, acl_id: Uuid, acl: Acl) -> None:
        """Removes an ACL that was added."""
        ids = self.ids[acl]
        del ids[acl_id]
        if ids:
            return
        del self.ids[acl]
        _drop(self._by_principal, acl.principal, acl)
        if acl.host != WILDCARD:
            _drop(self._by_host, acl.host, acl)
        _drop(self._by_kind, _kind_of(acl), acl)
        if _drop(self._by_name, acl.name, acl):
            self._lengths[len(acl.name)] -= 1
            if not self._lengths[len(acl.name)]:
                del self._lengths[len(acl.name)]

    def named(self, wanted: AclFilter) -> Pausing[list[Acl]]:
        """The ACLs that the filter matches."""
        found: list[Acl] = []
        for place, acl in enumerate(self._candidates(wanted)):
            if not place % AT_ONCE:
                yield
            if names_acl(wanted, acl):
                found.append(acl)
        return found

    def _candidates(self, wanted: AclFilter) -> Iterator[Acl]:
        """A superset of the ACLs that the filter matches."""
        groups = [self._by_kind[kind] for kind in self._by_kind if _may_name(wanted, kind)]
        if wanted.name is not None:
            names = self._names(wanted.name) if wanted.pattern_type == AclPatternType.MATCH else (wanted.name,)
            groups = _smaller(groups, [self._by_name[name] for name in names if name in self._by_name])
        if wanted.principal is not None:
            of_principal = self._by_principal.get(wanted.principal)
            groups = _smaller(groups, [] if of_principal is None else [of_principal])
        if wanted.host not in (None, WILDCARD):
            of_host = self._by_host.get(wanted.host)
            groups = _smaller(groups, [] if of_host is None else [of_host])
        for group in groups:
            yield from group

    def _names(self, name: str) -> dict[str, None]:
        """A superset of the ACL names that match the resource `name`."""
        prefixes = (name[:length] for length in self._lengths if length <= len(name))
        return dict.fromkeys((name, WILDCARD, *prefixes))


class StoredAcls(dict[Uuid, Acl]):
    """The ACLs by id. Only item assignment and `pop` change it."""

    __slots__ = ("_catalogue",)

    def __init__(self, acls: Mapping[Uuid, Acl] | Iterable[tuple[Uuid, Acl]] = ()) -> None:
        super().__init__(acls)
        self._catalogue: AclCatalogue | None = None

    def __setitem__(self, acl_id: Uuid, acl: Acl) -> None:
        if self._catalogue is not None:
            self.pop(acl_id, None)
            self._catalogue.add(acl_id, acl)
        super().__setitem__(acl_id, acl)

    def pop(self, acl_id: Uuid, default: Acl | None = None) -> Acl | None:  # type: ignore[override]
        """Removes and returns the ACL of this id; `default` if it does not exist."""
        acl = super().pop(acl_id, None)
        if acl is None:
            return default
        if self._catalogue is not None:
            self._catalogue.remove(acl_id, acl)
        return acl

    def catalogue(self) -> Pausing[AclCatalogue]:
        """The index. The ACLs must not change while it is built."""
        if self._catalogue is None:
            made = AclCatalogue()
            for place, (acl_id, acl) in enumerate(self.items()):
                if not place % AT_ONCE:
                    yield
                made.add(acl_id, acl)
            self._catalogue = made
        return self._catalogue


def _kind_of(acl: Acl) -> _Kind:
    return acl.resource_type, acl.pattern_type, acl.operation, acl.permission


def _may_name(wanted: AclFilter, kind: _Kind) -> bool:
    resource_type, pattern_type, operation, permission = kind
    return (
        wanted.resource_type in (ResourceType.ANY, resource_type)
        and wanted.pattern_type in (AclPatternType.ANY, AclPatternType.MATCH, pattern_type)
        and wanted.operation in (AclOperation.ANY, operation)
        and wanted.permission in (AclPermission.ANY, permission)
    )


def _smaller(one: list[dict[Acl, None]], other: list[dict[Acl, None]]) -> list[dict[Acl, None]]:
    return min(one, other, key=lambda groups: sum(map(len, groups)))


def _drop(groups: dict[_Key, dict[Acl, None]], key: _Key, acl: Acl) -> bool:
    """Removes the ACL. Returns whether its group is empty and removed."""
    group = groups[key]
    del group[acl]
    if not group:
        del groups[key]
    return not group
