"""SaslHandshake and SaslAuthenticate: the choice of a mechanism, and its tokens (KIP-43, 152, 368)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.wire.protocol.schema import Int16, Int64, Request, message, wire


@message(versions="0-1", flexible="none")
class SaslHandshakeRequest(Request["SaslHandshakeResponse"], frozen=True):
    """The mechanism of the client. After v0 tokens are bare frames, after v1 in SaslAuthenticate (KIP-152)."""

    mechanism: str = ""


@message(versions="0-1", flexible="none")
class SaslHandshakeResponse(msgspec.Struct, frozen=True):
    """`mechanisms`: those of the listener."""

    error_code: Int16 = 0
    mechanisms: tuple[str, ...] = ()


@message(versions="0-2", flexible="2+")
class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"], frozen=True):
    """A token from the client."""

    auth_bytes: bytes = b""


@message(versions="0-2", flexible="2+")
class SaslAuthenticateResponse(msgspec.Struct, frozen=True):
    """A token from the broker. v1 the session lifetime in milliseconds (KIP-368)."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = None
    auth_bytes: bytes = b""
    session_lifetime_ms: Annotated[Int64, wire("1+", ignorable=True)] = 0
