"""Request and response headers. Api key and version of a request decide its header's version.

The client id has a two-byte length in every version (KIP-482 left it for ApiVersions).
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import msgspec

from moldau.errors import ProtocolError
from moldau.types import Buffer
from moldau.wire.protocol.api_keys import is_unknown_api_versions, request_header_version
from moldau.wire.protocol.runtime import decode_text, skip_tagged_fields

_REQUEST: Final = Struct(">hhih")
_CORRELATION_ID: Final = Struct(">i")
_CORRELATION_ID_AND_TAGS: Final = Struct(">ix")


class RequestHeader(msgspec.Struct, frozen=True):
    """The header of a request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


def decode_request_header(buffer: Buffer) -> tuple[RequestHeader, int]:
    """The header of the request in `buffer` (without frame length), and the position of its body.

    As in Kafka, a negative client id length is null, and invalid UTF-8 is replaced. Raises ProtocolError for a cut
    header and for an undeclared key. The caller checks the version. In an ApiVersions request of an unknown version
    nothing after the client id is read, because it gets the v0 response in any case.
    """
    if len(buffer) < _REQUEST.size:
        raise ProtocolError("request header cut")
    api_key, api_version, correlation_id, client_id_size = _REQUEST.unpack_from(buffer)
    position = _REQUEST.size
    client_id = None
    if client_id_size >= 0:
        end = position + client_id_size
        if end > len(buffer):
            raise ProtocolError("client id longer than the request")
        client_id = decode_text(buffer[position:end])
        position = end
    if request_header_version(api_key, api_version) >= 2 and not is_unknown_api_versions(api_key, api_version):
        try:
            position = skip_tagged_fields(buffer, position + 1, buffer[position])
        except IndexError as error:
            raise ProtocolError("request header cut") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def encode_request_header(header: RequestHeader) -> bytes:
    """Raises ProtocolError for an undeclared key or a client id over 32,767 bytes."""
    client_id = header.client_id
    text = b"" if client_id is None else client_id.encode()
    if len(text) > 32_767:
        raise ProtocolError("client id over 32,767 bytes")
    size = -1 if client_id is None else len(text)
    tags = b"\x00" if request_header_version(header.api_key, header.api_version) >= 2 else b""
    return _REQUEST.pack(header.api_key, header.api_version, header.correlation_id, size) + text + tags


def encode_response_header(correlation_id: int, header_version: int) -> bytes:
    """Version 1 ends in an empty section of tagged fields."""
    return (_CORRELATION_ID_AND_TAGS if header_version else _CORRELATION_ID).pack(correlation_id)


def decode_response_header(buffer: Buffer, header_version: int) -> tuple[int, int]:
    """The correlation id, and the position of the body. Raises ProtocolError for a cut header."""
    if len(buffer) < _CORRELATION_ID.size + header_version:
        raise ProtocolError("response header cut")
    correlation_id: int = _CORRELATION_ID.unpack_from(buffer)[0]
    position = _CORRELATION_ID.size
    if header_version:
        try:
            position = skip_tagged_fields(buffer, position + 1, buffer[position])
        except IndexError as error:
            raise ProtocolError("response header cut") from error
    return correlation_id, position
