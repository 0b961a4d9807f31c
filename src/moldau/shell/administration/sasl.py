"""SASL on a listener without it: a client that was told to authenticate learns in one answer that it need not, as from
Apache Kafka. Where the connection ended in place of the answer, it would connect again and again."""

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
"""Apache Kafka's words: a connection without SASL is authenticated from its begin, as User:ANONYMOUS."""


async def act_sasl_handshake(
    node: Administered, context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    """Versions 0-1. KIP-43; v1 KIP-152. No mechanism is offered. Ignored on purpose: the mechanism that is wanted."""
    context.throttle()
    return SaslHandshakeResponse(_ILLEGAL_SASL_STATE)


async def act_sasl_authenticate(
    node: Administered, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """Versions 0-2. KIP-152; v1 KIP-368. Ignored on purpose: the token."""
    context.throttle()
    return SaslAuthenticateResponse(_ILLEGAL_SASL_STATE, _TOO_LATE)
