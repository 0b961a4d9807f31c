"""Envelope: a client's request, forwarded by a broker to the active controller (KIP-590)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.wire.protocol.schema import Int16, Request, message, wire


@message(versions="0", flexible="0+")
class EnvelopeRequest(Request["EnvelopeResponse"], frozen=True):
    """Between nodes only, on the controller's listener. `request_data`: header and body, as the client sent them.
    `client_host_address`: its 4 or 16 bytes."""

    request_data: bytes = b""
    request_principal: Annotated[bytes | None, wire(nullable="0+")] = b""
    client_host_address: bytes = b""


@message(versions="0", flexible="0+")
class DefaultPrincipalData(msgspec.Struct, frozen=True):
    """The principal, as in the bytes of `request_principal` after two bytes with the version."""

    type: str = ""
    name: str = ""
    token_authenticated: bool = False


@message(versions="0", flexible="0+")
class EnvelopeResponse(msgspec.Struct, frozen=True):
    """`response_data`: header and body for the client; null if the request was not handled."""

    response_data: Annotated[bytes | None, wire(nullable="0+")] = None
    error_code: Int16 = 0
