"""Encodes and decodes messages with functions that are generated at the first use of a (message, version).

Every decoder raises only ProtocolError. The memory of a decoder is bounded by its input: the length of an array is
compared with the remaining bytes before the array is created (at most 64 bytes for each byte of input, and 64 KiB
more).

`decode_pausing` and `encode_pausing` do the same as generators, for messages that may be long. They yield after every
few elements of arrays, so that other requests are served in between.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, Literal, TypeVar, cast

import msgspec

from moldau.errors import ProtocolError
from moldau.types import Buffer, Pausing
from moldau.wire.protocol.decoder_source import decoder_source
from moldau.wire.protocol.encoder_source import encoder_source
from moldau.wire.protocol.runtime import PAUSE
from moldau.wire.protocol.schema import has_views, message_info

MessageType = TypeVar("MessageType", bound=msgspec.Struct)

UNENCODABLE = (struct.error, AttributeError, TypeError, ValueError)
"""The errors of an encoder for a value that does not fit its field."""


def encode_message(message: msgspec.Struct, version: int) -> bytes:
    """The body of `message` in `version`, without header or frame.

    Raises ProtocolError for an unknown version, a value that does not fit its field, None where the version has no
    null, and a value other than the default in a field that the version lacks (unless it is ignorable).
    """
    parts: list[bytes] = []
    encode_into(message, version, parts)
    return b"".join(parts)


def encode_into(message: msgspec.Struct, version: int, parts: list[bytes]) -> None:
    """As `encode_message`, appending the parts: record batches are not copied. An error leaves `parts` incomplete."""
    encode, _ = _compiled("encode", type(message), version)
    try:
        encode(message, parts.append)
    except UNENCODABLE as error:
        raise ProtocolError(f"{type(message).__name__} v{version}: {error}") from error


def decode_message(cls: type[MessageType], version: int, buffer: Buffer, position: int = 0) -> tuple[MessageType, int]:
    """The message at `position`, and the position after it.

    Record batches are memoryviews of `buffer`; everything else is copied. Raises only ProtocolError.
    """
    decode, needs_view = _compiled("decode", cls, version)
    data: Buffer
    start = 0
    if needs_view:
        data = memoryview(buffer)
        start = position
    elif isinstance(buffer, bytes):
        data = buffer
        start = position
    else:
        data = bytes(memoryview(buffer)[position:])
    try:
        message, end = decode(data, start)
    except (struct.error, IndexError) as error:
        raise ProtocolError(f"{cls.__name__} v{version}: the bytes end too early") from error
    except ProtocolError as error:
        raise ProtocolError(f"{cls.__name__} v{version}: {error}") from error
    return cast(MessageType, message), end + position - start


def decode_pausing(cls: type[MessageType], version: int, buffer: Buffer, position: int = 0) -> Pausing[MessageType]:
    """As `decode_message`, with pauses. Returns the message only. `buffer` must not change before the end."""
    decode, _ = _compiled("decode", cls, version, PAUSE)
    try:
        message, _ = yield from decode(memoryview(buffer), position)
    except (struct.error, IndexError) as error:
        raise ProtocolError(f"{cls.__name__} v{version}: the bytes end too early") from error
    except ProtocolError as error:
        raise ProtocolError(f"{cls.__name__} v{version}: {error}") from error
    return cast(MessageType, message)


def encode_pausing(message: msgspec.Struct, version: int, parts: list[bytes]) -> Pausing[None]:
    """As `encode_into`, with pauses. The caller may take parts out in a pause. Raises ProtocolError, or one of
    UNENCODABLE, because another generator would cost each response 0.2 us."""
    encode, _ = _compiled("encode", type(message), version, PAUSE)
    encoding: Pausing[None] = encode(message, parts.append)
    return encoding


@cache
def _compiled(
    what: Literal["decode", "encode"], cls: type[msgspec.Struct], version: int, pause: tuple[str, ...] = ()
) -> tuple[Any, bool]:
    """The function that decodes or encodes this version, and whether its message has fields that are views. Raises
    ProtocolError for an unknown version."""
    info = message_info(cls)
    if version not in info.versions:
        raise ProtocolError(f"{cls.__name__} has no version {version}")
    source_of = decoder_source if what == "decode" else encoder_source
    source, names = source_of(cls, info, version, pause)
    exec(compile(source, f"<{what}r of {cls.__name__} v{version}{', pausing' if pause else ''}>", "exec"), names)
    return names[what], has_views(cls)
