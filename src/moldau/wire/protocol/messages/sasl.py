"""SASL before the first other request: the choice of a mechanism, and its tokens (KIP-43, 152, 368)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.wire.protocol.schema import Int16, Int64, Request, message, wire


@message(versions="0-1", flexible="none")
class SaslHandshakeRequest(Request["SaslHandshakeResponse"], frozen=True):
    """The mechanism that the client wants. Tokens follow bare after v0, in SaslAuthenticate after v1 (KIP-152)."""

    mechanism: str = ""


@message(versions="0-1", flexible="none")
class SaslHandshakeResponse(msgspec.Struct, frozen=True):
    """`mechanisms`: those of the listener."""

    error_code: Int16 = 0
    mechanisms: tuple[str, ...] = ()


@message(versions="0-2", flexible="2+")
class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"], frozen=True):
    """One token of the client's."""

    auth_bytes: bytes = b""


@message(versions="0-2", flexible="2+")
class SaslAuthenticateResponse(msgspec.Struct, frozen=True):
    """One token of the broker's. v1 after how many milliseconds the client must authenticate again (KIP-368)."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = None
    auth_bytes: bytes = b""
    session_lifetime_ms: Annotated[Int64, wire("1+", ignorable=True)] = 0
