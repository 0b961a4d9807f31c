"""Access control lists: without an authorizer, which is never there, Kafka refuses each request with 54."""

from __future__ import annotations

from moldau.core.controller.access_control import no_authorizer, refused_creations, refused_deletions
from moldau.errors import KafkaError, ProtocolError
from moldau.shell.administration.asking import Administered
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import ALTER_CLUSTER, DESCRIBE_CLUSTER, Right
from moldau.wire.protocol.messages.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)


async def act_describe_acls(
    node: Administered, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    """Versions 1-3. v1 pattern types (KIP-290), v2 flexible, v3 resources of users (KIP-373).

    54 for every filter; a code 0 closes the connection, as in Kafka. ACLs that Apache Kafka wrote are kept, and not
    described: without an authorizer Kafka does not describe them either. Ignored on purpose: nothing.
    """
    _check_codes(request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type)
    refusal = _refusal(context, DESCRIBE_CLUSTER)
    message = "No Authorizer is configured on the broker" if refusal.name == "SECURITY_DISABLED" else refusal.message
    return DescribeAclsResponse(
        throttle_time_ms=context.throttle(), error_code=refusal.code, error_message=message, resources=()
    )


async def act_create_acls(
    node: Administered, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    """Versions 1-3. KIP-140 and as `act_describe_acls`. 54 for every ACL. Ignored on purpose: nothing."""
    for acl in request.creations:
        _check_codes(acl.resource_type, acl.resource_pattern_type, acl.operation, acl.permission_type)
        await context.pause()
    return refused_creations(request, _refusal(context, ALTER_CLUSTER), context.throttle())


async def act_delete_acls(
    node: Administered, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    """Versions 1-3. KIP-140 and as `act_describe_acls`. 54 for every filter. Ignored on purpose: nothing."""
    for one in request.filters:
        _check_codes(one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type)
        await context.pause()
    return refused_deletions(request, _refusal(context, ALTER_CLUSTER), context.throttle())


def _check_codes(*codes: int) -> None:
    """Code 0 is UNKNOWN; codes that nobody knows pass."""
    if 0 in codes:
        raise ProtocolError("an ACL of an UNKNOWN resource type, pattern type, operation or permission type")


def _refusal(context: RequestContext, right: Right) -> KafkaError:
    try:
        context.check(right)
    except KafkaError as error:
        return error
    return no_authorizer()
