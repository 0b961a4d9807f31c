"""Access control lists: described, created, deleted. Without an authorizer Kafka rejects each request with 54."""

from __future__ import annotations

import msgspec

from moldau.core.authorization.filters import names_acl
from moldau.core.authorization.stored import AT_ONCE
from moldau.core.controller.access_control import filter_of, no_authorizer, refused_creations, refused_deletions
from moldau.core.metadata.image import MetadataImage
from moldau.errors import KafkaError, ProtocolError
from moldau.shell.administration.asking import Administered, ask_controller
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import ALTER_CLUSTER, DESCRIBE_CLUSTER
from moldau.types import Pausing
from moldau.wire.protocol.messages.acls import (
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


async def act_describe_acls(
    node: Administered, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    """Versions 1-3. v1 pattern types (KIP-290), v2 flexible, v3 resources of users (KIP-373).

    A code 0 closes the connection, as in Kafka. Ignored on purpose: nothing.
    """
    _check_codes(request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type)
    try:
        context.check(DESCRIBE_CLUSTER)
        if not node.static_settings.has_authorizer:
            error = no_authorizer()
            response = DescribeAclsResponse(
                error_code=error.code, error_message="No Authorizer is configured on the broker"
            )
        else:
            response = await context.finish(_described(node.image, request))
    except KafkaError as error:
        response = DescribeAclsResponse(error_code=error.code, error_message=error.message)
    return msgspec.structs.replace(response, throttle_time_ms=context.throttle())


async def act_create_acls(
    node: Administered, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    """Versions 1-3. KIP-140 and as `act_describe_acls`; networks as hosts (KIP-1276).

    A value that only filters may have is rejected with 42, where Kafka answers -1. Ignored on purpose: nothing.
    """
    for acl in request.creations:
        _check_codes(acl.resource_type, acl.resource_pattern_type, acl.operation, acl.permission_type)
        await context.pause()
    if not node.static_settings.has_authorizer:
        response = await context.finish(refused_creations(request, _refusal(context)))
        return msgspec.structs.replace(response, throttle_time_ms=context.throttle())
    return await ask_controller(node, context, ALTER_CLUSTER, request, refused_creations)


async def act_delete_acls(
    node: Administered, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    """Versions 1-3. KIP-140 and as `act_describe_acls`. Ignored on purpose: nothing."""
    for one in request.filters:
        _check_codes(one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type)
        await context.pause()
    if not node.static_settings.has_authorizer:
        response = await context.finish(refused_deletions(request, _refusal(context)))
        return msgspec.structs.replace(response, throttle_time_ms=context.throttle())
    return await ask_controller(node, context, ALTER_CLUSTER, request, refused_deletions)


def _check_codes(*codes: int) -> None:
    """Rejects code 0, UNKNOWN; codes without a meaning pass."""
    if 0 in codes:
        raise ProtocolError("an ACL of an UNKNOWN resource type, pattern type, operation or permission type")


def _refusal(context: RequestContext) -> KafkaError:
    """The error of a change without an authorizer."""
    try:
        context.check(ALTER_CLUSTER)
    except KafkaError as error:
        return error
    return no_authorizer()


def _described(image: MetadataImage, request: DescribeAclsRequest) -> Pausing[DescribeAclsResponse]:
    """The ACLs that match the filter, grouped by resource. Raises KafkaError."""
    wanted = filter_of(request)
    found: dict[tuple[int, str, int], list[AclDescription]] = {}
    for place, acl in enumerate(list(image.acls.values())):
        if not place % AT_ONCE:
            yield
        if names_acl(wanted, acl):
            described = AclDescription(acl.principal, acl.host, acl.operation, acl.permission)
            found.setdefault((acl.resource_type, acl.name, acl.pattern_type), []).append(described)
    resources = tuple(DescribeAclsResource(*pattern, tuple(acls)) for pattern, acls in found.items())
    return DescribeAclsResponse(resources=resources)
