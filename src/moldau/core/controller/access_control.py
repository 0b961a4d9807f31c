"""Access control lists: without an authorizer, which is never there, Kafka refuses to change any (KIP-140)."""

from __future__ import annotations

from typing import overload

from moldau.errors import KafkaError, kafka_error
from moldau.wire.protocol.messages.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def no_authorizer() -> KafkaError:
    return kafka_error("SECURITY_DISABLED", "No Authorizer is configured.")


@overload
def refused_acls(request: CreateAclsRequest, error: KafkaError, *, throttle_time_ms: int = 0) -> CreateAclsResponse: ...
@overload
def refused_acls(request: DeleteAclsRequest, error: KafkaError, *, throttle_time_ms: int = 0) -> DeleteAclsResponse: ...
def refused_acls(
    request: CreateAclsRequest | DeleteAclsRequest, error: KafkaError, *, throttle_time_ms: int = 0
) -> CreateAclsResponse | DeleteAclsResponse:
    """Each of what is asked for gets `error`."""
    if isinstance(request, CreateAclsRequest):
        result = AclCreationResult(error.code, error.message)
        return CreateAclsResponse(throttle_time_ms=throttle_time_ms, results=(result,) * len(request.creations))
    found = DeleteAclsFilterResult(error.code, error.message)
    return DeleteAclsResponse(throttle_time_ms=throttle_time_ms, filter_results=(found,) * len(request.filters))
