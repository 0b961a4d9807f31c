"""The step machine of one SASL connection: which frames are accepted, and the principal (KIP-43, 152, 368).

A frame goes in, outputs come out. Perform them in order. Before authentication only the two SASL requests are decoded;
ApiVersions is passed on. Unlike Apache Kafka, a second ApiVersions request before SaslHandshake is answered like the
first.
"""

from __future__ import annotations

import enum
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Protocol

import msgspec

from moldau.core.authentication.attempts import FailedAttempts
from moldau.core.authentication.exchange import Accepted, AuthenticationRefusedError, Exchange
from moldau.errors import ERROR_CODES, ProtocolError
from moldau.types import Buffer
from moldau.wire.protocol.api_keys import ApiKey, declared_api, response_header_version
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.headers import RequestHeader, decode_request_header, encode_response_header
from moldau.wire.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

REAUTHENTICATION_INTERVAL_MS = 1_000
"""The shortest time between two beginnings of an authentication on one connection."""
MAX_TOKEN_BYTES = 16 << 10
"""A longer token is rejected unread: names and nonces are kept until the exchange ends, and each is hashed."""
_ILLEGAL_STATE = ERROR_CODES["ILLEGAL_SASL_STATE"]
_FAILED = ERROR_CODES["SASL_AUTHENTICATION_FAILED"]
_UNSUPPORTED_MECHANISM = ERROR_CODES["UNSUPPORTED_SASL_MECHANISM"]
_read_key = Struct(">h").unpack_from


class Serve(msgspec.Struct, frozen=True):
    """The frame is a request that may be served."""


class Answer(msgspec.Struct, frozen=True):
    """Send `response` (a whole frame); then the next frame may come."""

    response: bytes


class Admit(msgspec.Struct, frozen=True):
    """The client is authenticated. `expires_at_ms`: the end of the session; None: never."""

    principal: str
    mechanism: str
    expires_at_ms: int | None
    token_id: str = ""
    """The id of the delegation token with which the client logged in; "" for other logins."""


class Refuse(msgspec.Struct, frozen=True):
    """An attempt failed. After `delay_ms` send `response`, if any, and close the connection. A delay of None closes at
    once and sends nothing. `reason` is for the log and has no secrets."""

    response: bytes | None
    delay_ms: int | None
    reason: str


class Close(msgspec.Struct, frozen=True):
    """Close the connection at once. `reason` is for the log; "": the client did nothing wrong."""

    reason: str


Output = Serve | Answer | Admit | Refuse | Close


class Mechanisms(Protocol):
    """The mechanisms of one listener."""

    @property
    def names(self) -> tuple[str, ...]:
        """The enabled mechanisms, as in the response to SaslHandshake."""
        ...

    def new_exchange(self, mechanism: str) -> Exchange:
        """Begins an exchange of an enabled mechanism."""
        ...

    def max_session_ms(self, mechanism: str) -> int:
        """The lifetime of a session. 0: no limit."""
        ...

    def still_has(self, principal: str, mechanism: str, token_id: str = "") -> bool:
        """Whether the credentials of an authenticated client are still valid. `token_id`: of its delegation token."""
        ...


class _State(enum.Enum):
    HANDSHAKE = "SASL handshake"
    TOKENS = "SASL authentication"
    BARE_TOKENS = "SASL authentication without headers"
    OTHER_MECHANISM = "re-authentication with another mechanism"
    ADMITTED = "admitted"
    OVER = "over"


class Authentication:
    """Give `step` each whole frame of the connection, without its length, until `is_open`."""

    def __init__(self, mechanisms: Mechanisms, attempts: FailedAttempts, address: str) -> None:
        self._mechanisms = mechanisms
        self._attempts = attempts
        self._address = address
        self._state = _State.HANDSHAKE
        self._exchange: Exchange | None = None
        self._mechanism = ""
        self._admitted: Admit | None = None
        self._began_again_ms: int | None = None

    @property
    def admitted(self) -> Admit | None:
        """The authenticated user. None before the first authentication."""
        return self._admitted

    @property
    def is_open(self) -> bool:
        """The client is authenticated, and its session never expires."""
        return self._state is _State.ADMITTED and self._admitted is not None and self._admitted.expires_at_ms is None

    def step(self, received: bytes | memoryview, now_ms: int) -> tuple[Output, ...]:
        """The outputs for one frame. Invalid input from the client never raises."""
        try:
            return self._step(received, now_ms)
        except ProtocolError as error:
            self._state = _State.OVER
            return (Close(f"bad request before authentication: {error}"),)

    def next_deadline_ms(self) -> int | None:
        """None: no timer. As in Kafka an expired session ends with the next request."""
        return None

    def _step(self, received: bytes | memoryview, now_ms: int) -> tuple[Output, ...]:
        match self._state:
            case _State.ADMITTED:
                return self._after_admission(received, now_ms)
            case _State.BARE_TOKENS:
                return self._token(None, received, now_ms)
            case _State.OTHER_MECHANISM:
                return self._refused(None, self._other_mechanism(), now_ms)
            case _State.OVER:
                return (Close(""),)
        key = _key_of(received)
        if self._state is _State.HANDSHAKE and key == ApiKey.API_VERSIONS:
            return (Serve(),)
        if self._state is _State.HANDSHAKE and key != ApiKey.SASL_HANDSHAKE:
            # before the rest is decoded: a client needs no complex request here
            raise ProtocolError(f"request key {key} during the {self._state.value}")
        header, position = decode_request_header(received)
        api = declared_api(ApiKey(header.api_key))
        if not api.min_version <= header.api_version <= api.max_version:
            raise ProtocolError(f"version {header.api_version} of {ApiKey(key).name} is not served")
        if self._state is _State.HANDSHAKE:
            request, _ = decode_message(SaslHandshakeRequest, header.api_version, received, position)
            return self._handshake(header, request.mechanism, now_ms)
        if key != ApiKey.SASL_AUTHENTICATE:
            return self._refused(_empty_answer(header), f"request key {key} during the {self._state.value}", now_ms)
        token, _ = decode_message(SaslAuthenticateRequest, header.api_version, received, position)
        return self._token(header, token.auth_bytes, now_ms)

    def _after_admission(self, received: bytes | memoryview, now_ms: int) -> tuple[Output, ...]:
        expires_at_ms = None if self._admitted is None else self._admitted.expires_at_ms
        if expires_at_ms is None:
            return (Serve(),)
        if len(received) >= _KEY_SIZE and _key_of(received) == ApiKey.SASL_HANDSHAKE and self._may_begin_again(now_ms):
            self._began_again_ms = now_ms
            self._state = _State.HANDSHAKE
            return self._step(received, now_ms)
        return (Close(""),) if now_ms > expires_at_ms or self._has_lost_token() else (Serve(),)

    def _has_lost_token(self) -> bool:
        """Whether the client's token was removed, or expires earlier than it did at the login."""
        who = self._admitted
        if who is None or not who.token_id:
            return False
        return not self._mechanisms.still_has(who.principal, who.mechanism, who.token_id)

    def _may_begin_again(self, now_ms: int) -> bool:
        began_ms = self._began_again_ms
        return began_ms is None or now_ms - began_ms >= REAUTHENTICATION_INTERVAL_MS

    def _handshake(self, header: RequestHeader, mechanism: str, now_ms: int) -> tuple[Output, ...]:
        names = self._mechanisms.names
        if mechanism not in names:
            answer = _framed(header, SaslHandshakeResponse(_UNSUPPORTED_MECHANISM, names))
            return self._refused(answer, f"Unsupported SASL mechanism {mechanism[:100]}", now_ms)
        answer = _framed(header, SaslHandshakeResponse(0, names))
        self._mechanism = mechanism
        if self._admitted is not None and mechanism != self._admitted.mechanism:
            self._state = _State.OTHER_MECHANISM
            return (Answer(answer),)
        self._state = _State.TOKENS if header.api_version else _State.BARE_TOKENS
        self._exchange = self._mechanisms.new_exchange(mechanism)
        return (Answer(answer),)

    def _token(self, header: RequestHeader | None, token: Buffer, now_ms: int) -> tuple[Output, ...]:
        if self._exchange is None:
            return (Close("a token without an exchange"),)
        try:
            if len(token) > MAX_TOKEN_BYTES:
                raise AuthenticationRefusedError(f"a token of {len(token)} bytes, and {MAX_TOKEN_BYTES} are read")
            answer = self._exchange.evaluate(bytes(token))
            if isinstance(answer, bytes):
                return (Answer(_token_frame(header, answer)),)
            return self._accepted(header, answer, now_ms)
        except AuthenticationRefusedError as error:
            told = error.told or self._invalid_credentials()
            response = None if header is None else _framed(header, SaslAuthenticateResponse(_FAILED, told))
            return self._refused(response, f"{self._mechanism}: {error}", now_ms)

    def _accepted(self, header: RequestHeader | None, accepted: Accepted, now_ms: int) -> tuple[Output, ...]:
        principal, before = f"User:{accepted.username}", self._admitted
        if before is not None and principal != before.principal:
            told = (
                "Cannot change principals during re-authentication from "
                f"{before.principal.replace(':', '.', 1)}: {principal.replace(':', '.', 1)}"
            )
            raise AuthenticationRefusedError(told, told)
        lifetime_ms = self._mechanisms.max_session_ms(self._mechanism)
        if accepted.lifetime_ms is not None:
            # a token may have expired within the skew: Kafka then sends 0, which tells the client that it may stay
            of_token_ms = max(accepted.lifetime_ms, 1)
            lifetime_ms = min(lifetime_ms, of_token_ms) if lifetime_ms else of_token_ms
        expires_at_ms = now_ms + lifetime_ms if lifetime_ms else None
        admitted = Admit(principal, self._mechanism, expires_at_ms, accepted.delegation_token)
        self._admitted, self._state, self._exchange = admitted, _State.ADMITTED, None
        return admitted, Answer(_token_frame(header, accepted.token, lifetime_ms))

    def _refused(self, response: bytes | None, reason: str, now_ms: int) -> tuple[Output, ...]:
        self._state, self._exchange = _State.OVER, None
        return (Refuse(response, self._attempts.failed(self._address, now_ms), reason),)

    def _invalid_credentials(self) -> str:
        """The message for a first authentication and for a reauthentication."""
        which = "authentication" if self._admitted is None else "re-authentication"
        return f"Authentication failed during {which} due to invalid credentials with SASL mechanism {self._mechanism}"

    def _other_mechanism(self) -> str:
        before = "" if self._admitted is None else self._admitted.mechanism
        return (
            f"SASL mechanism '{self._mechanism}' requested by client is not supported for re-authentication of "
            f"mechanism '{before}'"
        )


_KEY_SIZE = 2


def _key_of(received: bytes | memoryview) -> int:
    try:
        key: int = _read_key(received)[0]
    except StructError:
        raise ProtocolError(f"a frame of {len(received)} bytes holds no request header") from None
    return key


def _framed(header: RequestHeader, response: msgspec.Struct) -> bytes:
    version = header.api_version
    head = encode_response_header(header.correlation_id, response_header_version(header.api_key, version))
    return frame(head, encode_message(response, version))


def _token_frame(header: RequestHeader | None, token: bytes, lifetime_ms: int = 0) -> bytes:
    if header is None:
        return frame(token)
    response = SaslAuthenticateResponse(error_message="", auth_bytes=token, session_lifetime_ms=lifetime_ms)
    return _framed(header, response)


def _empty_answer(header: RequestHeader) -> bytes | None:
    """Kafka's response to a request between two tokens: only the error."""
    response_type = declared_api(ApiKey(header.api_key)).response
    has_code = "error_code" in response_type.__struct_fields__
    try:
        return _framed(header, response_type(error_code=_ILLEGAL_STATE) if has_code else response_type())
    except (TypeError, ProtocolError):  # a required field has a value that only the handler knows
        return None
