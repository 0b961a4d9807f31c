"""Creates, renews, expires and describes delegation tokens (KIP-48, KIP-373).

A token logs in as its owner by SCRAM, with its id as the name and its HMAC in base64 as the password. Principals are
written as `User:alice`; times are milliseconds since 1970.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

import msgspec

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import error_of
from moldau.wire.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)

MAX_PRINCIPALS: Final = 1_000
"""The number of renewers or owners in one request."""
MAX_HMAC_BYTES: Final = 1_024
"""Kafka makes HMACs of SHA-512, which have 64 bytes."""
_BY_SETTING_MS: Final = -1
"""The period from the brokers' settings. When expiring a token: at once."""


class DelegationToken(msgspec.Struct, frozen=True):
    """`hmac` is a secret and is not shown: it lets anybody log in as `owner`. `requester`: the principal that created
    the token; the owner if the broker does not report it (before KIP-373)."""

    token_id: str
    hmac: bytes
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    """The limit of all renewals."""

    def __repr__(self) -> str:
        return f"DelegationToken({self.token_id!r}, ***, owner={self.owner!r}, expires_ms={self.expires_ms})"

    @property
    def password(self) -> str:
        """The password for a SCRAM login."""
        return base64.b64encode(self.hmac).decode()


def create_token(
    admin: ClusterAdmin,
    *,
    owner: str | None = None,
    renewers: Sequence[str] = (),
    max_lifetime_ms: int = _BY_SETTING_MS,
) -> DelegationToken:
    """Creates a token of `owner`, by default the caller. Raises DELEGATION_TOKEN_AUTHORIZATION_FAILED for another owner
    without the right, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED on a connection without authentication or authenticated by a
    token, DELEGATION_TOKEN_AUTH_DISABLED if the brokers have no secret key; ValueError for an invalid principal, and
    for more than MAX_PRINCIPALS."""
    owner_type, owner_name = (None, None) if owner is None else split_principal(owner)
    response = admin.ask(
        CreateDelegationTokenRequest(
            owner_principal_type=owner_type,
            owner_principal_name=owner_name,
            renewers=tuple(CreatableRenewers(*each) for each in _split(renewers)),
            max_lifetime_ms=max_lifetime_ms,
        )
    )
    if response.error_code:
        raise error_of(response.error_code)
    named = _joined(response.principal_type, response.principal_name)
    requester = _joined(response.token_requester_principal_type, response.token_requester_principal_name)
    return DelegationToken(
        response.token_id,
        bytes(response.hmac),
        named,
        requester or named,
        tuple(renewers),
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
    )


def renew_token(admin: ClusterAdmin, hmac: bytes, period_ms: int = _BY_SETTING_MS) -> int:
    """Renews the token, and returns its new expiry time, at most its `max_ms`. Raises DELEGATION_TOKEN_NOT_FOUND,
    DELEGATION_TOKEN_EXPIRED, and DELEGATION_TOKEN_OWNER_MISMATCH unless the caller is its owner or a renewer."""
    check_hmac(hmac)
    response = admin.ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms))
    if response.error_code:
        raise error_of(response.error_code)
    return response.expiry_timestamp_ms


def expire_token(admin: ClusterAdmin, hmac: bytes, period_ms: int = _BY_SETTING_MS) -> int:
    """Sets the expiry time of the token and returns it. A negative period removes the token at once. Raises as
    `renew_token`."""
    check_hmac(hmac)
    response = admin.ask(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms))
    if response.error_code:
        raise error_of(response.error_code)
    return response.expiry_timestamp_ms


def describe_tokens(admin: ClusterAdmin, owners: Sequence[str] | None = None) -> list[DelegationToken]:
    """The tokens of these owners that the caller may see, in the broker's order; None: of all owners. Raises as
    `create_token`."""
    named = None if owners is None else tuple(DescribeDelegationTokenOwner(*each) for each in _split(owners))
    response = admin.ask(DescribeDelegationTokenRequest(owners=named))
    if response.error_code:
        raise error_of(response.error_code)
    return [
        DelegationToken(
            row.token_id,
            bytes(row.hmac),
            _joined(row.principal_type, row.principal_name),
            _joined(row.token_requester_principal_type, row.token_requester_principal_name)
            or _joined(row.principal_type, row.principal_name),
            tuple(_joined(each.principal_type, each.principal_name) for each in row.renewers),
            row.issue_timestamp,
            row.expiry_timestamp,
            row.max_timestamp,
        )
        for row in response.tokens
    ]


def split_principal(text: str) -> tuple[str, str]:
    """Type and name of `User:alice`. Raises ValueError with the message of Kafka's tools."""
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return kind, name


def check_hmac(hmac: bytes) -> None:
    """Raises ValueError for an HMAC that is empty or longer than MAX_HMAC_BYTES."""
    if not 0 < len(hmac) <= MAX_HMAC_BYTES:
        raise ValueError(f"the HMAC of a token has 1 to {MAX_HMAC_BYTES} bytes, not {len(hmac)}")


def _split(principals: Sequence[str]) -> list[tuple[str, str]]:
    if len(principals) > MAX_PRINCIPALS:
        raise ValueError(f"at most {MAX_PRINCIPALS} principals can be named, not {len(principals)}")
    return [split_principal(each) for each in principals]


def _joined(kind: str, name: str) -> str:
    return f"{kind}:{name}" if kind or name else ""
