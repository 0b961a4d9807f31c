"""The ACLs that a filter matches (KIP-140, 290)."""

from __future__ import annotations

from moldau.wire.protocol.acls import (
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)


def names_acl(wanted: AclFilter, acl: Acl) -> bool:
    """Whether the filter matches the ACL."""
    return (
        wanted.resource_type in (AclResourceType.ANY, acl.resource_type)
        and wanted.operation in (AclOperation.ANY, acl.operation)
        and wanted.permission in (AclPermission.ANY, acl.permission)
        and wanted.principal in (None, acl.principal)
        and wanted.host in (None, acl.host)
        and _names_pattern(wanted, acl)
    )


def _names_pattern(wanted: AclFilter, acl: Acl) -> bool:
    if wanted.pattern_type not in (AclPatternType.ANY, AclPatternType.MATCH, acl.pattern_type):
        return False
    if wanted.name is None:
        return True
    return concerns(acl, wanted.name) if wanted.pattern_type == AclPatternType.MATCH else wanted.name == acl.name


def concerns(acl: Acl, name: str) -> bool:
    """Whether the ACL applies to the resource of this name."""
    if acl.pattern_type == AclPatternType.LITERAL:
        return acl.name in (name, WILDCARD)
    return acl.pattern_type == AclPatternType.PREFIXED and name.startswith(acl.name)
