"""Delegation tokens: created, renewed, expired and removed (KIP-48, KIP-373).

Responses are those of Apache Kafka, except for the bounds. Kafka keeps any number of tokens and renewers.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from moldau.core.authentication.delegation_tokens import is_expired, token_hmac, token_of_hmac
from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.requests import TokenRequest
from moldau.core.metadata.features import METADATA_VERSION
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.random_uuid import random_uuid
from moldau.errors import KafkaError, kafka_error
from moldau.ports import Random
from moldau.types import Pausing, uuid_to_text
from moldau.wire.protocol.acl_words import type_and_name
from moldau.wire.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from moldau.wire.protocol.messages.metadata_records import DelegationTokenRecord, RemoveDelegationTokenRecord

MAX_TOKENS: Final = 10_000
"""The most tokens of a cluster, including expired ones that are not removed yet."""
MAX_TOKENS_OF_OWNER: Final = 1_000
MAX_RENEWERS: Final = 100
MAX_NAME_BYTES: Final = 1_024
"""The most bytes of a principal in a token."""
MAX_REMOVED: Final = 1_000
"""Expired tokens removed in one decision; more are removed in the next, at once. As in Kafka."""
USER: Final = "User"
"""The only type of principal that may renew a token."""
METADATA_VERSION_3_6_IV2: Final = 14
_MAX_TIME_MS: Final = (1 << 63) - 1

TokenResponse = CreateDelegationTokenResponse | RenewDelegationTokenResponse | ExpireDelegationTokenResponse


def check_enabled(settings: BrokerSettings) -> str:
    """The secret key. Raises DELEGATION_TOKEN_AUTH_DISABLED without one."""
    if settings.delegation_token_secret_key is None:
        raise kafka_error("DELEGATION_TOKEN_AUTH_DISABLED")
    return settings.delegation_token_secret_key


def owner_of(request: CreateDelegationTokenRequest, requester: str) -> str:
    """The owner of the token: the one in the request, else `requester`. TYPE:NAME."""
    if not request.owner_principal_name:
        return requester
    return f"{request.owner_principal_type or ''}:{request.owner_principal_name}"


def change_token(
    image: MetadataImage, settings: BrokerSettings, random: Random, asked: TokenRequest, now_ms: int
) -> Pausing[tuple[list[MetadataRecord], TokenResponse]]:
    """The records and the response of one request. `now_ms`: since the epoch."""
    try:
        secret_key = check_enabled(settings)
        if image.features.get(METADATA_VERSION, 0) < METADATA_VERSION_3_6_IV2:
            raise kafka_error("UNSUPPORTED_VERSION")
        match asked.request:
            case CreateDelegationTokenRequest() as request:
                tokens = image.logins.delegation_tokens()
                token = yield from _created(tokens, settings, random, request, asked.requester, now_ms)
                return [token], _response(token, token_hmac(secret_key, token.token_id))
            case RenewDelegationTokenRequest() as request:
                return (yield from _renewed(image, settings, request, asked.requester, now_ms))
            case ExpireDelegationTokenRequest() as request:
                return (yield from _expired(image, settings, request, asked.requester, now_ms))
    except KafkaError as error:
        return [], _refused(asked, error)


def _refused(asked: TokenRequest, error: KafkaError) -> TokenResponse:
    match asked.request:
        case CreateDelegationTokenRequest() as request:
            owner = owner_of(request, asked.requester)
            return CreateDelegationTokenResponse(error.code, *type_and_name(owner), *type_and_name(asked.requester))
        case RenewDelegationTokenRequest():
            return RenewDelegationTokenResponse(error.code)
        case ExpireDelegationTokenRequest():
            return ExpireDelegationTokenResponse(error.code)


def sweep_tokens(image: MetadataImage, now_ms: int) -> Pausing[list[MetadataRecord]]:
    """Removes expired tokens, MAX_REMOVED at a time."""
    records: list[MetadataRecord] = []
    for token in image.logins.delegation_tokens():
        yield
        if is_expired(token, now_ms):
            records.append(RemoveDelegationTokenRecord(token.token_id))
            if len(records) == MAX_REMOVED:
                break
    return records


def _created(
    tokens: tuple[DelegationTokenRecord, ...],
    settings: BrokerSettings,
    random: Random,
    request: CreateDelegationTokenRequest,
    requester: str,
    now_ms: int,
) -> Pausing[DelegationTokenRecord]:
    owner = owner_of(request, requester)
    longest_ms = settings.delegation_token_max_lifetime_ms
    lifetime_ms = min(longest_ms, request.max_lifetime_ms) if request.max_lifetime_ms > 0 else longest_ms
    until_ms = _sum(now_ms, lifetime_ms)
    expires_ms = min(until_ms, _sum(now_ms, settings.delegation_token_expiry_time_ms))
    if any(renewer.principal_type != USER for renewer in request.renewers):
        raise kafka_error("INVALID_PRINCIPAL_TYPE")
    renewers = tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers)
    if len(renewers) > MAX_RENEWERS:
        raise kafka_error("POLICY_VIOLATION", f"a token has at most {MAX_RENEWERS} renewers")
    if any(len(name.encode(errors="replace")) > MAX_NAME_BYTES for name in (owner, requester, *renewers)):
        raise kafka_error("POLICY_VIOLATION", f"a principal of a token has at most {MAX_NAME_BYTES} bytes")
    if len(tokens) >= MAX_TOKENS:
        raise kafka_error("POLICY_VIOLATION", f"a cluster has at most {MAX_TOKENS} delegation tokens")
    of_owner = 0
    for token in tokens:
        of_owner += token.owner == owner
        yield
    if of_owner >= MAX_TOKENS_OF_OWNER:
        raise kafka_error("POLICY_VIOLATION", f"an owner has at most {MAX_TOKENS_OF_OWNER} delegation tokens")
    token_id = uuid_to_text(random_uuid(random))
    return DelegationTokenRecord(owner, requester, renewers, now_ms, until_ms, expires_ms, token_id)


def _renewed(
    image: MetadataImage, settings: BrokerSettings, request: RenewDelegationTokenRequest, requester: str, now_ms: int
) -> Pausing[tuple[list[MetadataRecord], RenewDelegationTokenResponse]]:
    token = yield from _token(image, settings, request.hmac)
    if is_expired(token, now_ms):
        raise kafka_error("DELEGATION_TOKEN_EXPIRED")
    _check_may_renew(token, requester)
    longest_ms = settings.delegation_token_expiry_time_ms
    lifetime_ms = min(longest_ms, request.renew_period_ms) if request.renew_period_ms > 0 else longest_ms
    expires_ms = min(token.max_timestamp, _sum(now_ms, lifetime_ms))
    return [_until(token, expires_ms)], RenewDelegationTokenResponse(0, expires_ms)


def _expired(
    image: MetadataImage, settings: BrokerSettings, request: ExpireDelegationTokenRequest, requester: str, now_ms: int
) -> Pausing[tuple[list[MetadataRecord], ExpireDelegationTokenResponse]]:
    token = yield from _token(image, settings, request.hmac)
    _check_may_renew(token, requester)
    if request.expiry_time_period_ms < 0:
        return [RemoveDelegationTokenRecord(token.token_id)], ExpireDelegationTokenResponse(0, now_ms)
    if is_expired(token, now_ms):
        raise kafka_error("DELEGATION_TOKEN_EXPIRED")
    expires_ms = min(token.max_timestamp, _sum(now_ms, request.expiry_time_period_ms))
    return [_until(token, expires_ms)], ExpireDelegationTokenResponse(0, expires_ms)


def _token(image: MetadataImage, settings: BrokerSettings, hmac: bytes) -> Pausing[DelegationTokenRecord]:
    found = yield from token_of_hmac(image.logins.delegation_tokens(), check_enabled(settings), hmac)
    if found is None:
        raise kafka_error("DELEGATION_TOKEN_NOT_FOUND")
    return found


def _check_may_renew(token: DelegationTokenRecord, requester: str) -> None:
    if requester != token.owner and requester not in token.renewers:
        raise kafka_error("DELEGATION_TOKEN_OWNER_MISMATCH")


def _until(token: DelegationTokenRecord, expires_ms: int) -> DelegationTokenRecord:
    return replace(token, expiration_timestamp=expires_ms)


def _response(token: DelegationTokenRecord, hmac: bytes) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        0,
        *type_and_name(token.owner),
        *type_and_name(token.requester),
        token.issue_timestamp,
        token.expiration_timestamp,
        token.max_timestamp,
        token.token_id,
        hmac,
    )


def _sum(time_ms: int, period_ms: int) -> int:
    return min(time_ms + period_ms, _MAX_TIME_MS)
