"""Messages to bytes and back, by functions that are written and compiled at the first use of a (message, version).

Every reader of bytes here fails in one way: ProtocolError. What a decoder allocates is bounded by what it reads: the
length of an array is checked against the bytes that remain before the array is made (at most 64 bytes for each byte of
input, and 64 KiB more).

`decode_in_slices` and `encode_in_slices` do the same in pieces, for messages that may be long: they pause behind
every few hundred elements of arrays, so that others are served meanwhile.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator
from typing import Literal, TypeVar, cast

import msgspec

from moldau.errors import ProtocolError
from moldau.types import Buffer
from moldau.wire.protocol.decoder_source import decoder_source
from moldau.wire.protocol.encoder_source import encoder_source
from moldau.wire.protocol.runtime import PAUSE
from moldau.wire.protocol.schema import has_views, message_info

MessageType = TypeVar("MessageType", bound=msgspec.Struct)

Decoder = Callable[[Buffer, int], tuple[msgspec.Struct, int]]
Encoder = Callable[[msgspec.Struct, Callable[[bytes], None]], None]

_decoders: dict[tuple[type[msgspec.Struct], int], tuple[Decoder, bool]] = {}
_encoders: dict[tuple[type[msgspec.Struct], int], Encoder] = {}

SlicedDecoder = Callable[[memoryview, int], Generator[None, None, tuple[msgspec.Struct, int]]]
SlicedEncoder = Callable[[msgspec.Struct, Callable[[bytes], None]], Generator[None, None, None]]

_UNENCODABLE = (struct.error, AttributeError, TypeError, ValueError)

_sliced_decoders: dict[tuple[type[msgspec.Struct], int], SlicedDecoder] = {}
_sliced_encoders: dict[tuple[type[msgspec.Struct], int], SlicedEncoder] = {}


def encode_message(message: msgspec.Struct, version: int) -> bytes:
    """The body of `message` in `version`, without header or frame.

    Raises ProtocolError for a version that does not exist, a value that does not fit its field, None where the version
    has no null, and a value other than the default in a field that the version lacks (unless it is ignorable).
    """
    parts: list[bytes] = []
    encode_into(message, version, parts)
    return b"".join(parts)


def encode_into(message: msgspec.Struct, version: int, parts: list[bytes]) -> None:
    """As `encode_message`, appending the parts: record batches are not copied. An error leaves `parts` half done."""
    encode = _encoders.get((type(message), version)) or _make_encoder(type(message), version)
    try:
        encode(message, parts.append)
    except _UNENCODABLE as error:
        raise ProtocolError(f"{type(message).__name__} v{version}: {error}") from error


def decode_message(cls: type[MessageType], version: int, buffer: Buffer, position: int = 0) -> tuple[MessageType, int]:
    """The message whose body begins at `position`, and the position behind it; what follows is the caller's business.

    Record batches come out as memoryviews of `buffer`; everything else is copied. Raises ProtocolError only.
    """
    entry = _decoders.get((cls, version)) or _make_decoder(cls, version)
    decode, needs_view = entry
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


def decode_in_slices(
    cls: type[MessageType], version: int, buffer: Buffer, position: int = 0
) -> Generator[None, None, MessageType]:
    """As `decode_message`, pausing; gives the message when it ends. `buffer` must not change before that."""
    decode = _sliced_decoders.get((cls, version)) or _make_sliced_decoder(cls, version)
    try:
        message, _ = yield from decode(memoryview(buffer), position)
    except (struct.error, IndexError) as error:
        raise ProtocolError(f"{cls.__name__} v{version}: the bytes end too early") from error
    except ProtocolError as error:
        raise ProtocolError(f"{cls.__name__} v{version}: {error}") from error
    return cast(MessageType, message)


def encode_in_slices(message: msgspec.Struct, version: int) -> tuple[bytes, Iterator[bytes] | None]:
    """As `encode_message`, pausing: the first piece of the body, and what gives the others one by one; None where the
    first piece is all of the body. That is a short message, which costs no generator and no exception more."""
    encode = _sliced_encoders.get((type(message), version)) or _make_sliced_encoder(type(message), version)
    parts: list[bytes] = []
    encoding = encode(message, parts.append)
    rest = None
    try:
        for _ in encoding:
            rest = _other_pieces(message, version, encoding, parts)
            break
    except _UNENCODABLE as error:
        raise ProtocolError(f"{type(message).__name__} v{version}: {error}") from error
    first = b"".join(parts)
    parts.clear()
    return first, rest


def _other_pieces(
    message: msgspec.Struct, version: int, encoding: Generator[None, None, None], parts: list[bytes]
) -> Iterator[bytes]:
    try:
        for _ in encoding:
            piece = b"".join(parts)
            parts.clear()
            yield piece
    except _UNENCODABLE as error:
        raise ProtocolError(f"{type(message).__name__} v{version}: {error}") from error
    yield b"".join(parts)


def generated_source(cls: type[msgspec.Struct], version: int) -> str:
    """The Python text of both functions, for a reader's eyes."""
    info = message_info(cls)
    return decoder_source(cls, info, version)[0] + "\n\n" + encoder_source(cls, info, version)[0]


def _compiled(
    cls: type[msgspec.Struct], version: int, what: Literal["decode", "encode"], pause: tuple[str, ...] = ()
) -> object:
    """The function that decodes or encodes this version. Raises ProtocolError where there is none."""
    info = message_info(cls)
    if version not in info.versions:
        raise ProtocolError(f"{cls.__name__} has no version {version}")
    source_of = decoder_source if what == "decode" else encoder_source
    source, names = source_of(cls, info, version, pause)
    title = f"<{what}r of {cls.__name__} v{version}{', in slices' if pause else ''}>"
    exec(compile(source, title, "exec"), names)
    return names[what]


def _make_decoder(cls: type[msgspec.Struct], version: int) -> tuple[Decoder, bool]:
    entry = _decoders[cls, version] = cast(Decoder, _compiled(cls, version, "decode")), has_views(cls)
    return entry


def _make_encoder(cls: type[msgspec.Struct], version: int) -> Encoder:
    encode = _encoders[cls, version] = cast(Encoder, _compiled(cls, version, "encode"))
    return encode


def _make_sliced_decoder(cls: type[msgspec.Struct], version: int) -> SlicedDecoder:
    decode = _sliced_decoders[cls, version] = cast(SlicedDecoder, _compiled(cls, version, "decode", PAUSE))
    return decode


def _make_sliced_encoder(cls: type[msgspec.Struct], version: int) -> SlicedEncoder:
    encode = _sliced_encoders[cls, version] = cast(SlicedEncoder, _compiled(cls, version, "encode", PAUSE))
    return encode
