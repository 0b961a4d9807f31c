"""CreateAcls and DeleteAcls (KIP-140, 290, 1276), with the checks and messages of Apache Kafka 4.4.0."""

from __future__ import annotations

from enum import IntEnum

from msgspec.structs import astuple

from moldau.core.authorization.hosts import is_network, parse_network
from moldau.core.authorization.settings import is_principal
from moldau.core.metadata.batches import MAX_BATCH_RECORDS, batch_too_large
from moldau.core.metadata.features import can_name_networks
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.image_records import acl_record
from moldau.core.metadata.random_uuid import random_uuid
from moldau.errors import KafkaError, kafka_error
from moldau.ports import Random
from moldau.types import Pausing, Uuid
from moldau.wire.protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)
from moldau.wire.protocol.messages.acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
)
from moldau.wire.protocol.messages.metadata_records import RemoveAccessControlEntryRecord

_TOO_MANY = f"Cannot remove more than {MAX_BATCH_RECORDS} acls in a single delete operation."
_ONLY_IN_FILTERS = {
    AclResourceType: (AclResourceType.UNKNOWN, AclResourceType.ANY),
    AclPatternType: (AclPatternType.UNKNOWN, AclPatternType.ANY, AclPatternType.MATCH),
    AclOperation: (AclOperation.UNKNOWN, AclOperation.ANY),
    AclPermission: (AclPermission.UNKNOWN, AclPermission.ANY),
}


def no_authorizer() -> KafkaError:
    """The error for every ACL request without an authorizer: SECURITY_DISABLED (54)."""
    return kafka_error("SECURITY_DISABLED", "No Authorizer is configured.")


def create_acls(
    image: MetadataImage, random: Random, request: CreateAclsRequest
) -> Pausing[tuple[list[MetadataRecord], CreateAclsResponse]]:
    """The records of the new ACLs, and a result for each one in the request. An ACL that exists is no error."""
    known = (yield from image.acls.catalogue()).ids
    new: dict[Acl, None] = {}
    may_name_networks = can_name_networks(image.features)
    records: list[MetadataRecord] = []
    results: list[AclCreationResult] = []
    for creation in request.creations:
        yield
        try:
            _check(creation, may_name_networks=may_name_networks)
        except KafkaError as error:
            results.append(AclCreationResult(error.code, error.message))
            continue
        results.append(AclCreationResult())
        acl = Acl(*astuple(creation))
        if acl not in known and acl not in new:
            new[acl] = None
            records.append(acl_record(_new_id(image, random), acl))
    if len(records) > MAX_BATCH_RECORDS:
        return [], (yield from refused_creations(request, batch_too_large()))
    return records, CreateAclsResponse(results=tuple(results))


def delete_acls(
    image: MetadataImage, request: DeleteAclsRequest
) -> Pausing[tuple[list[MetadataRecord], DeleteAclsResponse]]:
    """The records of the removed ACLs, and the matches of each filter. An ACL that two filters match is removed
    once."""
    gone: dict[Uuid, MetadataRecord] = {}
    results: list[DeleteAclsFilterResult] = []
    count = 0
    catalogue = yield from image.acls.catalogue()
    for one in request.filters:
        yield
        try:
            _check_filter(one)
        except KafkaError as error:
            results.append(DeleteAclsFilterResult(error.code, error.message))
            continue
        found: list[DeleteAclsMatchingAcl] = []
        for acl in (yield from catalogue.named(filter_of(one))):
            for acl_id in catalogue.ids[acl]:
                yield
                count += 1
                if count > MAX_BATCH_RECORDS:
                    # an ACL counts once for each filter that matches it, because the response also has a limit
                    too_many = kafka_error("INVALID_REQUEST", _TOO_MANY)
                    return [], (yield from refused_deletions(request, too_many))
                found.append(DeleteAclsMatchingAcl(0, None, *astuple(acl)))
                gone[acl_id] = RemoveAccessControlEntryRecord(acl_id)
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=tuple(found)))
    return list(gone.values()), DeleteAclsResponse(filter_results=tuple(results))


def filter_of(one: DeleteAclsFilter | DescribeAclsRequest) -> AclFilter:
    """The filter of a request. With an unknown code it matches no ACL."""
    return AclFilter(*astuple(one))


def _check_filter(one: DeleteAclsFilter) -> None:
    """Raises INVALID_REQUEST for an unknown code."""
    codes = ((AclResourceType, one.resource_type_filter), (AclPatternType, one.pattern_type_filter))
    if any(_known(kind, code) is None for kind, code in codes):
        raise kafka_error("INVALID_REQUEST", "Unknown patternFilter.")
    if _known(AclOperation, one.operation) is None or _known(AclPermission, one.permission_type) is None:
        raise kafka_error("INVALID_REQUEST", "Unknown entryFilter.")


def refused_creations(request: CreateAclsRequest, error: KafkaError) -> Pausing[CreateAclsResponse]:
    """The response with `error` for each ACL."""
    result = AclCreationResult(error.code, error.message)
    yield
    return CreateAclsResponse(results=(result,) * len(request.creations))


def refused_deletions(request: DeleteAclsRequest, error: KafkaError) -> Pausing[DeleteAclsResponse]:
    """The response with `error` for each filter."""
    result = DeleteAclsFilterResult(error.code, error.message)
    yield
    return DeleteAclsResponse(filter_results=(result,) * len(request.filters))


def _check(acl: AclCreation, *, may_name_networks: bool) -> None:
    """Raises INVALID_REQUEST, or UNSUPPORTED_VERSION for a network."""
    if acl.resource_type == AclResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise kafka_error("INVALID_REQUEST", f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        raise kafka_error("INVALID_REQUEST", "Invalid empty resource name")
    _check_code("resourceType", AclResourceType, acl.resource_type)
    _check_code("patternType", AclPatternType, acl.resource_pattern_type)
    _check_code("operation", AclOperation, acl.operation)
    _check_code("permissionType", AclPermission, acl.permission_type)
    if not is_principal(acl.principal):
        raise kafka_error(
            "INVALID_REQUEST",
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from "
            "the principal name)",
        )
    _check_host(acl.host, may_name_networks=may_name_networks)


def _check_code(what: str, kind: type[IntEnum], code: int) -> None:
    known = _known(kind, code)
    if known is None or known in _ONLY_IN_FILTERS[kind]:
        raise kafka_error("INVALID_REQUEST", f"Invalid {what} {'UNKNOWN' if known is None else known.name}")


def _known(kind: type[IntEnum], code: int) -> IntEnum | None:
    return kind(code) if code in kind._value2member_map_ and code else None


def _check_host(host: str, *, may_name_networks: bool) -> None:
    if not host:
        raise kafka_error("INVALID_REQUEST", "Host pattern cannot be null or empty")
    if host == WILDCARD or not is_network(host):
        return
    if not may_name_networks:
        raise kafka_error(
            "UNSUPPORTED_VERSION", "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."
        )
    try:
        parse_network(host)
    except ValueError as error:
        raise kafka_error("INVALID_REQUEST", f"Invalid CIDR notation '{host}': {error}") from None


def _new_id(image: MetadataImage, random: Random) -> Uuid:
    while True:
        acl_id = random_uuid(random)
        if acl_id not in image.acls:
            return acl_id
