"""Delegation tokens: created, renewed, expired by the active controller, described from the image (KIP-48, 373)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from moldau.core.authentication.delegation_tokens import token_hmac, token_of_hmac
from moldau.core.controller.delegation_tokens import USER, check_enabled, owner_of
from moldau.core.controller.requests import TokenRequest
from moldau.errors import KafkaError, kafka_error
from moldau.shell.administration.asking import Administered
from moldau.shell.network.context import ForwardedContext, RequestContext
from moldau.shell.network.rights import CREATE_TOKENS_USER, DESCRIBE_DELEGATION_TOKEN, DESCRIBE_TOKENS_USER
from moldau.shell.network.session import ANONYMOUS
from moldau.types import Pausing
from moldau.wire.protocol.acl_words import type_and_name
from moldau.wire.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from moldau.wire.protocol.messages.metadata_records import DelegationTokenRecord

NAMES_REQUESTER_FROM = 3
"""The version from which answers name the token's requester."""
NO_TIME = -1
"""The times in answers that are rejected before the controller is asked; as in Kafka, the controller's rejections have
0."""


async def act_create_delegation_token(
    node: Administered, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Versions 1-3. KIP-48; v2 flexible, v3 another owner (KIP-373). Ignored on purpose: nothing."""
    asked = TokenRequest(request, context.session.principal)
    owner = owner_of(request, asked.requester)
    try:
        _check_allowed(node, context)
        if owner != asked.requester and not context.authorize(CREATE_TOKENS_USER, owner):
            raise kafka_error("DELEGATION_TOKEN_AUTHORIZATION_FAILED")
        is_typed = bool(request.owner_principal_type) or not request.owner_principal_name
        if not is_typed or any(renewer.principal_type != USER for renewer in request.renewers):
            raise kafka_error("INVALID_PRINCIPAL_TYPE")
        response: CreateDelegationTokenResponse = await context.wait(node.submit(asked, context))
    except KafkaError as error:
        names = *type_and_name(owner), *type_and_name(asked.requester)
        response = CreateDelegationTokenResponse(error.code, *names, NO_TIME, NO_TIME, NO_TIME)
    if context.api_version < NAMES_REQUESTER_FROM:
        without = {"token_requester_principal_type": "", "token_requester_principal_name": ""}
        response = msgspec.structs.replace(response, **without)
    return msgspec.structs.replace(response, throttle_time_ms=context.throttle())


async def act_renew_delegation_token(
    node: Administered, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Versions 1-2. KIP-48; v2 flexible. Ignored on purpose: nothing."""
    try:
        await _name(node, context, request.hmac)
        asked = TokenRequest(request, context.session.principal)
        response: RenewDelegationTokenResponse = await context.wait(node.submit(asked, context))
    except KafkaError as error:
        response = RenewDelegationTokenResponse(error.code, NO_TIME)
    return msgspec.structs.replace(response, throttle_time_ms=context.throttle())


async def act_expire_delegation_token(
    node: Administered, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Versions 1-2. KIP-48; v2 flexible. Ignored on purpose: nothing."""
    try:
        await _name(node, context, request.hmac)
        asked = TokenRequest(request, context.session.principal)
        response: ExpireDelegationTokenResponse = await context.wait(node.submit(asked, context))
    except KafkaError as error:
        response = ExpireDelegationTokenResponse(error.code, NO_TIME)
    return msgspec.structs.replace(response, throttle_time_ms=context.throttle())


async def act_describe_delegation_token(
    node: Administered, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Versions 1-3. KIP-48; v2 flexible, v3 names the token's requester (KIP-373). Answered from the image, without the
    tokens that the client may not see. Ignored on purpose: nothing."""
    try:
        _check_allowed(node, context)
        secret_key = check_enabled(node.static_settings)
        tokens = await context.finish(_described(node, context, request, secret_key))
        response = DescribeDelegationTokenResponse(tokens=tokens)
    except KafkaError as error:
        response = DescribeDelegationTokenResponse(error.code)
    return msgspec.structs.replace(response, throttle_time_ms=context.throttle())


def _check_allowed(node: Administered, context: RequestContext) -> None:
    """A token lets its bearer act as the owner. So a client may only get one if its listener authenticates it (not
    PLAINTEXT, nor SSL without a client certificate), and not by a token. Raises DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
    """
    session = context.session
    # for a forwarded request, the broker has checked the listener
    protocol = "" if isinstance(context, ForwardedContext) else node.static_settings.protocol_of(session.listener_name)
    is_open = protocol == "PLAINTEXT" or (protocol == "SSL" and session.principal == ANONYMOUS)
    if session.is_token_authenticated or is_open:
        raise kafka_error("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED")


async def _name(node: Administered, context: RequestContext, hmac: bytes) -> None:
    """Names the token for the audit log. Raises DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    _check_allowed(node, context)
    secret_key = node.static_settings.delegation_token_secret_key
    if secret_key is not None:
        tokens = node.image.logins.delegation_tokens()
        token = await context.finish(token_of_hmac(tokens, secret_key, hmac))
        context.concerns("" if token is None else token.token_id)


def _described(
    node: Administered, context: RequestContext, request: DescribeDelegationTokenRequest, secret_key: str
) -> Pausing[tuple[DescribedDelegationToken, ...]]:
    owners = None
    if request.owners is not None:
        owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
        if not owners:
            return ()
    found: list[DescribedDelegationToken] = []
    for token in node.image.logins.delegation_tokens():
        yield
        if (owners is None or not owners.isdisjoint(_users_of(token))) and _may_see(context, token):
            found.append(_description(token, secret_key, names_requester=context.api_version >= NAMES_REQUESTER_FROM))
    return tuple(found)


def _users_of(token: DelegationTokenRecord) -> Iterator[str]:
    """The users who may describe the token without a further right. They include its requester, who may not renew or
    expire it."""
    yield token.owner
    yield token.requester
    yield from token.renewers


def _may_see(context: RequestContext, token: DelegationTokenRecord) -> bool:
    if context.session.principal in _users_of(token):
        return True
    may_describe = context.authorize(DESCRIBE_DELEGATION_TOKEN, token.token_id)
    return may_describe or context.authorize(DESCRIBE_TOKENS_USER, token.owner)


def _description(token: DelegationTokenRecord, secret_key: str, *, names_requester: bool) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        *type_and_name(token.owner),
        *type_and_name(token.requester if names_requester else ""),
        token.issue_timestamp,
        token.expiration_timestamp,
        token.max_timestamp,
        token.token_id,
        token_hmac(secret_key, token.token_id),
        tuple(DescribedDelegationTokenRenewer(*type_and_name(renewer)) for renewer in token.renewers),
    )
