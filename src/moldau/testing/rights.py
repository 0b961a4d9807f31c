"""ACLs as a test writes them: `allow("alice", "read", topic="orders", group="kitchen")`."""

from __future__ import annotations

import msgspec

from moldau.wire.protocol.acl_words import check_operation, operation_of, principal_of
from moldau.wire.protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclPatternType,
    AclPermission,
    AclResourceType,
)

Rights = tuple[Acl, ...]
"""One ACL for each operation on each resource."""


def allow(
    principal: str,
    *operations: str,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    cluster: bool = False,
    prefixed: bool = False,
    host: str = WILDCARD,
) -> Rights:
    """Allows the principal (`alice` means `User:alice`; `User:*` means everybody) the operations (`read`, `write`, ...)
    on each named resource. With `prefixed` the names are prefixes. The name `*` matches every resource.

    Raises ValueError if no resource is named, and for an operation that is unknown or does not apply to the resource.
    """
    named = {
        AclResourceType.TOPIC: topic,
        AclResourceType.GROUP: group,
        AclResourceType.TRANSACTIONAL_ID: transactional_id,
        AclResourceType.CLUSTER: CLUSTER_NAME if cluster else None,
    }
    resources = {kind: name for kind, name in named.items() if name is not None}
    if not operations or not resources:
        raise ValueError('name what is done, and to what: allow("alice", "read", topic="orders")')
    made = []
    for kind, name in resources.items():
        is_prefix = prefixed and name != WILDCARD and kind != AclResourceType.CLUSTER
        pattern = AclPatternType.PREFIXED if is_prefix else AclPatternType.LITERAL
        for operation in map(operation_of, operations):
            check_operation(kind, operation)
            who = principal_of(principal)
            made.append(Acl(int(kind), name, int(pattern), who, host, int(operation), int(AclPermission.ALLOW)))
    return tuple(made)


def deny(
    principal: str,
    *operations: str,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    cluster: bool = False,
    prefixed: bool = False,
    host: str = WILDCARD,
) -> Rights:
    """As `allow`, but denies. A denied operation stays denied even if another ACL allows it."""
    allowed = allow(
        principal,
        *operations,
        topic=topic,
        group=group,
        transactional_id=transactional_id,
        cluster=cluster,
        prefixed=prefixed,
        host=host,
    )
    return tuple(msgspec.structs.replace(acl, permission=int(AclPermission.DENY)) for acl in allowed)
