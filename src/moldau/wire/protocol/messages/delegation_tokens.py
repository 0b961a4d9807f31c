"""Delegation tokens: create, renew, expire, describe (KIP-48), also for another owner (KIP-373).

Times are milliseconds since the epoch. An `hmac` is a secret: its holder logs in as the owner.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.wire.protocol.schema import Int16, Int32, Int64, Request, message, wire


class CreatableRenewers(msgspec.Struct, frozen=True):
    principal_type: str = ""
    principal_name: str = ""


@message(versions="1-3", flexible="2+")
class CreateDelegationTokenRequest(Request["CreateDelegationTokenResponse"], frozen=True):
    """Without an owner: the requester. `max_lifetime_ms`: -1 is `delegation.token.max.lifetime.ms`."""

    owner_principal_type: Annotated[str | None, wire("3+", nullable="3+")] = ""
    owner_principal_name: Annotated[str | None, wire("3+", nullable="3+")] = ""
    renewers: tuple[CreatableRenewers, ...] = ()
    max_lifetime_ms: Int64 = 0


@message(versions="1-3", flexible="2+")
class CreateDelegationTokenResponse(msgspec.Struct, frozen=True):
    """`principal_type`, `principal_name`: of the owner."""

    error_code: Int16 = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: Annotated[str, wire("3+")] = ""
    token_requester_principal_name: Annotated[str, wire("3+")] = ""
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: Int32 = 0

    def __repr__(self) -> str:
        return f"CreateDelegationTokenResponse(error_code={self.error_code}, token_id={self.token_id!r}, hmac=***)"


@message(versions="1-2", flexible="2+")
class RenewDelegationTokenRequest(Request["RenewDelegationTokenResponse"], frozen=True):
    """`renew_period_ms`: -1 is `delegation.token.expiry.time.ms`."""

    hmac: bytes = b""
    renew_period_ms: Int64 = 0

    def __repr__(self) -> str:
        return f"RenewDelegationTokenRequest(hmac=***, renew_period_ms={self.renew_period_ms})"


@message(versions="1-2", flexible="2+")
class RenewDelegationTokenResponse(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


@message(versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest(Request["ExpireDelegationTokenResponse"], frozen=True):
    """A negative `expiry_time_period_ms` removes the token at once."""

    hmac: bytes = b""
    expiry_time_period_ms: Int64 = 0

    def __repr__(self) -> str:
        return f"ExpireDelegationTokenRequest(hmac=***, expiry_time_period_ms={self.expiry_time_period_ms})"


@message(versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


class DescribeDelegationTokenOwner(msgspec.Struct, frozen=True):
    principal_type: str = ""
    principal_name: str = ""


@message(versions="1-3", flexible="2+")
class DescribeDelegationTokenRequest(Request["DescribeDelegationTokenResponse"], frozen=True):
    """Null: all that the client may see. Empty: no token."""

    owners: Annotated[tuple[DescribeDelegationTokenOwner, ...] | None, wire(nullable="0+")] = ()


class DescribedDelegationTokenRenewer(msgspec.Struct, frozen=True):
    principal_type: str = ""
    principal_name: str = ""


class DescribedDelegationToken(msgspec.Struct, frozen=True):
    """`principal_type`, `principal_name`: of the owner."""

    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: Annotated[str, wire("3+")] = ""
    token_requester_principal_name: Annotated[str, wire("3+")] = ""
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: tuple[DescribedDelegationTokenRenewer, ...] = ()

    def __repr__(self) -> str:
        return f"DescribedDelegationToken(token_id={self.token_id!r}, hmac=***)"


@message(versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    tokens: tuple[DescribedDelegationToken, ...] = ()
    throttle_time_ms: Int32 = 0
