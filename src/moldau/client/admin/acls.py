"""Access control lists (KIP-140): describes, creates and deletes them, and lists those that each kind of client
needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import astuple

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import error_of
from moldau.wire.protocol.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclResourceType,
)
from moldau.wire.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)

_PER_REQUEST = 5_000
"""The active controller accepts at most 10,000 in one request."""


class Resource(msgspec.Struct, frozen=True, order=True):
    """The resource of an ACL: the one with this name (LITERAL), or all whose names begin with it (PREFIXED)."""

    resource_type: int
    name: str
    pattern_type: int = AclPatternType.LITERAL


CLUSTER = Resource(AclResourceType.CLUSTER, CLUSTER_NAME)

Wanted = dict[Resource, tuple[AclOperation, ...]]
"""The operations on each resource."""

_PRODUCER = {
    AclResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    AclResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
_CONSUMER = {
    AclResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    AclResourceType.GROUP: (AclOperation.READ,),
}


def producer_needs(resources: Iterable[Resource], *, is_idempotent: bool = False) -> Wanted:
    """The operations that a producer needs on these topics and transactional ids, as in `kafka-acls --producer`."""
    wanted = _needs(_PRODUCER, resources)
    if is_idempotent:
        wanted[CLUSTER] = (AclOperation.IDEMPOTENT_WRITE,)
    return wanted


def consumer_needs(resources: Iterable[Resource]) -> Wanted:
    """The operations that a consumer needs on these topics and groups, as in `kafka-acls --consumer`."""
    return _needs(_CONSUMER, resources)


def copier_needs(read: Iterable[Resource], written: Iterable[Resource]) -> Wanted:
    """The operations of a client that reads topics as a group and writes others in transactions, together with the
    group's offsets. `read`: topics and the group; `written`: topics and the transactional id."""
    wanted = consumer_needs(read)
    for resource, operations in producer_needs(written).items():
        wanted[resource] = tuple(dict.fromkeys((*wanted.get(resource, ()), *operations)))
    return wanted


def _needs(needs: dict[AclResourceType, tuple[AclOperation, ...]], resources: Iterable[Resource]) -> Wanted:
    return {
        resource: needs[AclResourceType(resource.resource_type)]
        for resource in resources
        if resource.resource_type in needs
    }


def describe_acls(admin: ClusterAdmin, wanted: AclFilter) -> list[Acl]:
    """The ACLs that match the filter, sorted."""
    response = admin.ask(DescribeAclsRequest(*astuple(wanted)))
    if response.error_code:
        raise error_of(response.error_code, response.error_message)
    return sorted(
        Acl(resource.resource_type, resource.resource_name, resource.pattern_type, *astuple(acl))
        for resource in response.resources
        for acl in resource.acls
    )


def create_acls(admin: ClusterAdmin, acls: Sequence[Acl]) -> None:
    """Creates the ACLs. An existing ACL is not an error. Raises the first error, after creating all others."""
    for start in range(0, len(acls), _PER_REQUEST):
        creations = tuple(AclCreation(*astuple(acl)) for acl in acls[start : start + _PER_REQUEST])
        for result in admin.ask(CreateAclsRequest(creations)).results:
            if result.error_code:
                raise error_of(result.error_code, result.error_message)


def delete_acls(admin: ClusterAdmin, filters: Sequence[AclFilter]) -> list[Acl]:
    """Deletes the ACLs that match the filters, and returns them sorted. Raises the first error."""
    response = admin.ask(DeleteAclsRequest(tuple(DeleteAclsFilter(*astuple(one)) for one in filters)))
    gone: dict[Acl, None] = {}
    for result in response.filter_results:
        if result.error_code:
            raise error_of(result.error_code, result.error_message)
        for acl in result.matching_acls:
            if acl.error_code:
                raise error_of(acl.error_code, acl.error_message)
            _, _, *fields = astuple(acl)
            gone[Acl(*fields)] = None
    return sorted(gone)
