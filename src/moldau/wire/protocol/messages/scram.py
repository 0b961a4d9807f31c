"""SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.wire.protocol.schema import Int8, Int16, Int32, Request, message, wire


class UserName(msgspec.Struct, frozen=True):
    name: str = ""


@message(versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest(Request["DescribeUserScramCredentialsResponse"], frozen=True):
    """Null or no users: all of them."""

    users: Annotated[tuple[UserName, ...] | None, wire(nullable="0+")] = ()


class CredentialInfo(msgspec.Struct, frozen=True):
    """`mechanism`: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    mechanism: Int8 = 0
    iterations: Int32 = 0


class DescribeUserScramCredentialsResult(msgspec.Struct, frozen=True):
    user: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""
    credential_infos: tuple[CredentialInfo, ...] = ()


@message(versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(msgspec.Struct, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""
    results: tuple[DescribeUserScramCredentialsResult, ...] = ()


class ScramCredentialDeletion(msgspec.Struct, frozen=True):
    name: str = ""
    mechanism: Int8 = 0


class ScramCredentialUpsertion(msgspec.Struct, frozen=True):
    name: str = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: bytes = b""
    salted_password: bytes = b""


@message(versions="0", flexible="0+")
class AlterUserScramCredentialsRequest(Request["AlterUserScramCredentialsResponse"], frozen=True):
    deletions: tuple[ScramCredentialDeletion, ...] = ()
    upsertions: tuple[ScramCredentialUpsertion, ...] = ()


class AlterUserScramCredentialsResult(msgspec.Struct, frozen=True):
    user: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""


@message(versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(msgspec.Struct, frozen=True):
    """One result for each user."""

    throttle_time_ms: Int32 = 0
    results: tuple[AlterUserScramCredentialsResult, ...] = ()
