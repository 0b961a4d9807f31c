"""SASL on a listener without it: a client configured for SASL learns from one answer that it need not authenticate, as
from Apache Kafka. If the connection closed instead, the client would reconnect again and again."""

from __future__ import annotations

from moldau.errors import ERROR_CODES
from moldau.shell.administration.asking import Administered
from moldau.shell.network.context import RequestContext
from moldau.wire.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

_ILLEGAL_SASL_STATE = ERROR_CODES["ILLEGAL_SASL_STATE"]
_TOO_LATE = "SaslAuthenticate request received after successful authentication"
"""Apache Kafka's words: a connection without SASL is authenticated from the start, as User:ANONYMOUS."""


async def act_sasl_handshake(
    node: Administered, context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    """Versions 0-1. KIP-43; v1 KIP-152. Offers no mechanism. Ignored on purpose: the requested mechanism."""
    context.throttle()
    return SaslHandshakeResponse(_ILLEGAL_SASL_STATE)


async def act_sasl_authenticate(
    node: Administered, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """Versions 0-2. KIP-152; v1 KIP-368. Ignored on purpose: the token."""
    context.throttle()
    return SaslAuthenticateResponse(_ILLEGAL_SASL_STATE, _TOO_LATE)
