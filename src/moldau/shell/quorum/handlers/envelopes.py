"""Envelope: client requests that brokers forward to the active controller (KIP-590)."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

import msgspec

from moldau.core.controller.requests import STRICT_FROM
from moldau.core.quotas.limits import CONTROLLER_MUTATION_RATE, client_limit, user_of
from moldau.core.quotas.usage import MutationQuota
from moldau.errors import ERROR_CODES, KafkaError, ProtocolError, kafka_error
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import CLUSTER_ACTION
from moldau.shell.network.session import Session
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey, ApiVersionRange
from moldau.wire.protocol.codec import decode_pausing, encode_pausing
from moldau.wire.protocol.envelopes import decode_principal, encode_enclosed_header
from moldau.wire.protocol.error_codes import each_error_code
from moldau.wire.protocol.headers import RequestHeader, decode_request_header
from moldau.wire.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse

if TYPE_CHECKING:
    from moldau.shell.quorum.role import QuorumRole

FORWARDED = (
    *STRICT_FROM,
    *(ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ELECT_LEADERS),
    *(ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.LIST_PARTITION_REASSIGNMENTS),
    *(ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS),
    *(ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN),
    *(ApiKey.UPDATE_FEATURES, ApiKey.UNREGISTER_BROKER, ApiKey.UNREGISTER_CONTROLLER),
    *(ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER),
    *(ApiKey.DESCRIBE_QUORUM, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS),
)
"""The client requests that only the active controller can answer, and further ones that brokers of Apache Kafka
forward."""

_ADDRESS_BYTES = (4, 16)
NOT_CONTROLLER = ERROR_CODES["NOT_CONTROLLER"]


async def act_envelope(quorum: QuorumRole, context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
    """Version 0 (KIP-590). An error of the envelope is the client's error for its whole request; 41 makes the broker
    look for the active controller again.

    The handler of the enclosed API handles the request and authorizes the client again, as in Kafka.
    """
    try:
        context.check(CLUSTER_ACTION)
        if not quorum.is_leader:
            # the broker then finds and asks the active controller; but it would forward an error in an answer to the
            # client
            raise kafka_error("NOT_CONTROLLER")
        header, declared, position = _opened(request)
        try:
            principal, is_by_token = decode_principal(request.request_principal)
        except ProtocolError as error:
            raise kafka_error("PRINCIPAL_DESERIALIZATION_FAILURE", str(error)) from error
        address = str(ip_address(request.client_host_address))
        session = Session(principal, address, context.session.listener_name, is_token_authenticated=is_by_token)
        decoding = decode_pausing(declared.request, header.api_version, request.request_data, position)
        try:
            message = await context.finish(decoding)
        except ProtocolError as error:
            raise kafka_error("INVALID_REQUEST", str(error)) from error
        forwarded = context.forwarded(header, session, _quota(quorum, header, principal))
        response = await context.wait(forwarded.handle(message))
        _check_leader(quorum, response)
        await context.finish(forwarded.audited(message, response))
    except KafkaError as error:
        return EnvelopeResponse(error_code=error.code)
    parts = [encode_enclosed_header(header)]
    await context.finish(encode_pausing(response, header.api_version, parts))
    return EnvelopeResponse(b"".join(parts))


def _check_leader(quorum: QuorumRole, response: msgspec.Struct) -> None:
    """Raises NOT_CONTROLLER if another controller must decide: the answer says so for each topic or resource."""
    if not quorum.is_leader and NOT_CONTROLLER in each_error_code(response):
        raise kafka_error("NOT_CONTROLLER")


def _opened(request: EnvelopeRequest) -> tuple[RequestHeader, ApiVersionRange, int]:
    """The header, the version range and the body position of the enclosed request. Raises INVALID_REQUEST,
    UNSUPPORTED_VERSION."""
    try:
        header, position = decode_request_header(request.request_data)
    except ProtocolError as error:
        raise kafka_error("INVALID_REQUEST", str(error)) from error
    if header.api_key not in FORWARDED:
        raise kafka_error("INVALID_REQUEST", f"API key {header.api_key} is not to be forwarded")
    if len(request.client_host_address) not in _ADDRESS_BYTES:
        raise kafka_error("INVALID_REQUEST", "the address of the client has neither 4 nor 16 bytes")
    declared = API_VERSIONS[ApiKey(header.api_key)]
    if not declared.min_version <= header.api_version <= declared.max_version:
        raise kafka_error("UNSUPPORTED_VERSION")
    return header, declared, position


def _quota(quorum: QuorumRole, header: RequestHeader, principal: str) -> MutationQuota | None:
    strict_from = STRICT_FROM.get(ApiKey(header.api_key))
    if strict_from is None:
        return None
    quotas, user = quorum.image.client_quotas, user_of(principal)
    found = client_limit(quotas, CONTROLLER_MUTATION_RATE, user, header.client_id or "")
    if found is None:
        return None
    limit, share = found
    return MutationQuota(share, limit, header.api_version >= strict_from)
