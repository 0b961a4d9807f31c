"""The content of an envelope: a client's request with its header, the response, and the principal (KIP-590).

`request_data` and `response_data` are frames without their length.
"""

from __future__ import annotations

from typing import Any

import msgspec

from moldau.errors import ProtocolError
from moldau.types import Buffer
from moldau.wire.protocol.acl_words import type_and_name
from moldau.wire.protocol.api_keys import ApiVersionRange, api_key_of, declared_api, response_header_version
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.headers import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)
from moldau.wire.protocol.messages.envelope import DefaultPrincipalData
from moldau.wire.protocol.schema import Request

_PRINCIPAL_VERSION = 0
_VERSION_BYTES = 2


def encode_principal(principal: str, *, is_by_token: bool = False) -> bytes:
    """`principal`: "TYPE:NAME". `is_by_token`: logged in with a delegation token."""
    return _PRINCIPAL_VERSION.to_bytes(_VERSION_BYTES) + encode_message(
        DefaultPrincipalData(*type_and_name(principal), is_by_token), _PRINCIPAL_VERSION
    )


def decode_principal(data: Buffer | None) -> tuple[str, bool]:
    """The principal, TYPE:NAME, and whether it logged in with a delegation token.

    Raises ProtocolError for bytes that Kafka's default builder does not write.
    """
    if data is None or bytes(data[:_VERSION_BYTES]) != _PRINCIPAL_VERSION.to_bytes(_VERSION_BYTES):
        raise ProtocolError("a principal in a form that is not known")
    principal, _ = decode_message(DefaultPrincipalData, _PRINCIPAL_VERSION, data, _VERSION_BYTES)
    return f"{principal.type}:{principal.name}", principal.token_authenticated


def encode_enclosed(message: Request[Any], client_id: str) -> bytes:
    """`message` in the highest version of its API."""
    api_key = api_key_of(message)
    version = declared_api(api_key).max_version
    return encode_request_header(RequestHeader(api_key, version, 0, client_id)) + encode_message(message, version)


def decode_enclosed_answer(message: Request[Any], data: Buffer) -> msgspec.Struct:
    """The response to the request that `encode_enclosed` made from `message`. Raises ProtocolError."""
    api_key = api_key_of(message)
    declared: ApiVersionRange = declared_api(api_key)
    _, position = decode_response_header(data, response_header_version(api_key, declared.max_version))
    return decode_message(declared.response, declared.max_version, data, position)[0]


def encode_enclosed_header(header: RequestHeader) -> bytes:
    """The header of the response to the request with this header. The body follows."""
    return encode_response_header(header.correlation_id, response_header_version(header.api_key, header.api_version))
