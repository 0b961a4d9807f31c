"""Access control lists: without an authorizer, which is never there, Kafka refuses to change any (KIP-140)."""

from __future__ import annotations

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
    """The error that answers every request for ACLs: SECURITY_DISABLED (54)."""
    return kafka_error("SECURITY_DISABLED", "No Authorizer is configured.")


def refused_creations(request: CreateAclsRequest, error: KafkaError, throttle_time_ms: int = 0) -> CreateAclsResponse:
    """The answer in which each ACL gets `error`."""
    result = AclCreationResult(error.code, error.message)
    return CreateAclsResponse(throttle_time_ms=throttle_time_ms, results=(result,) * len(request.creations))


def refused_deletions(request: DeleteAclsRequest, error: KafkaError, throttle_time_ms: int = 0) -> DeleteAclsResponse:
    """The answer in which each filter gets `error`."""
    result = DeleteAclsFilterResult(error.code, error.message)
    return DeleteAclsResponse(throttle_time_ms=throttle_time_ms, filter_results=(result,) * len(request.filters))
