"""Decodes keys and values with the schemas of a registry, to readable JSON.

Pipelines decode whole columns instead (`pipelines/formats`).
"""

from __future__ import annotations

import io
import json
import math
import time
from collections.abc import Callable
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from threading import Lock

import msgspec

from moldau.extras import require_extra
from moldau.products.pipelines.formats.registry import (
    HEADER_BYTES,
    MAGIC,
    RegisteredSchema,
    Registry,
    RegistryError,
)
from moldau.products.proto_files import MAIN, ProtoError, compile_protos
from moldau.products.record_json import bytes_as_json

ASKED_AGAIN_S = 10.0
"""How long an unavailable schema is not requested again."""
PATIENCE_MS = 2_000
MOST_READERS = 1_000

Reader = Callable[[bytes], object]
"""Reads the bytes after the schema's id; returns values of JSON. Raises ValueError."""


class Decoded(msgspec.Struct, frozen=True):
    """`value`: a JSON value, which may be null."""

    value: object

    def text(self) -> str:
        """A string unchanged, any other value as JSON."""
        return self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)


class RegisteredValues:
    """Decodes by one registry; thread-safe."""

    def __init__(self, registry: Registry | str) -> None:
        """A text is the address of a registry without a login. Raises MissingExtraError."""
        require_extra("to decode records by a registry", "registry")
        if isinstance(registry, str):
            registry = Registry.at(registry, {}, None, PATIENCE_MS)
        self._registry = registry
        self._lock = Lock()
        self._readers: dict[int, Reader] = {}
        self._not_before: dict[int, float] = {}

    def check(self, timeout_ms: int) -> None:
        """Raises RegistryError if the registry does not answer."""
        self._registry.check(timeout_ms)

    def decoded(self, data: bytes | str | None) -> Decoded | None:
        """None for bytes that name no schema of the registry, or do not match their schema."""
        if not isinstance(data, bytes) or len(data) < HEADER_BYTES or data[0] != MAGIC:
            return None
        with self._lock:
            reader = self._reader(int.from_bytes(data[1:HEADER_BYTES], "big"))
        if reader is None:
            return None
        try:
            return Decoded(_as_json(reader(data[HEADER_BYTES:])))
        except (ValueError, RecursionError):
            return None

    def _reader(self, schema_id: int) -> Reader | None:
        if schema_id in self._readers:
            return self._readers[schema_id]
        if time.monotonic() < self._not_before.get(schema_id, 0.0):
            return None
        try:
            schema = self._registry.schema_of_id(schema_id)
            reader = _READERS[schema.kind](schema)
        except (RegistryError, ProtoError, ValueError, KeyError, RecursionError):
            if len(self._not_before) >= MOST_READERS:
                self._not_before.clear()
            self._not_before[schema_id] = time.monotonic() + ASKED_AGAIN_S
            return None
        if len(self._readers) >= MOST_READERS:
            self._readers.clear()
        self._readers[schema_id] = reader
        return reader


def _avro(schema: RegisteredSchema) -> Reader:
    from avro.errors import AvroException
    from avro.io import BinaryDecoder, DatumReader
    from avro.name import Names
    from avro.schema import make_avsc_object

    names = Names()
    try:
        for _, text in schema.references:
            make_avsc_object(json.loads(text), names)
        reader = DatumReader(make_avsc_object(json.loads(schema.text), names))
    except (AvroException, TypeError, AttributeError) as error:
        raise ValueError(f"it is no Avro schema: {error}") from error

    def read(data: bytes) -> object:
        source = io.BytesIO(data)
        try:
            value: object = reader.read(BinaryDecoder(source))
        except Exception as error:  # the library raises various errors for bad bytes: struct.error, TypeError, ...
            raise ValueError(str(error)) from error
        if source.read(1):
            raise ValueError("bytes are left behind the value")
        return value

    return read


def _protobuf(schema: RegisteredSchema) -> Reader:
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
    from google.protobuf.message import DecodeError

    files = compile_protos({**dict(schema.references), MAIN: schema.text}, MAIN)
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.AddSerializedFile(file)
    main = descriptor_pb2.FileDescriptorProto.FromString(files[-1])

    def read(data: bytes) -> object:
        place, behind = _place(data)
        try:
            message, name = main.message_type[place[0]], main.package
            name = f"{name}.{message.name}" if name else message.name
            for number in place[1:]:
                message = message.nested_type[number]
                name = f"{name}.{message.name}"
            found = message_factory.GetMessageClass(pool.FindMessageTypeByName(name)).FromString(data[behind:])
            return json_format.MessageToDict(
                found, preserving_proto_field_name=True, always_print_fields_with_no_presence=True, descriptor_pool=pool
            )
        except (DecodeError, IndexError, KeyError, TypeError, json_format.Error) as error:
            raise ValueError(str(error)) from error

    return read


def _place(data: bytes) -> tuple[list[int], int]:
    """The indexes of the message in its file, and the position of its bytes. A single zero byte means the first
    message."""
    count, at = _varint(data, 0)
    if count == 0:
        return [0], at
    place: list[int] = []
    for _ in range(count):
        number, at = _varint(data, at)
        place.append(number)
    return place, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint that is not negative. Raises ValueError."""
    value = shift = 0
    for place in range(at, min(at + 5, len(data))):
        value |= (data[place] & 0x7F) << shift
        shift += 7
        if data[place] < 0x80:
            if value & 1:
                raise ValueError("a place below 0")
            return value >> 1, place + 1
    raise ValueError("no place of a message")


def _json(_: RegisteredSchema) -> Reader:
    return lambda data: json.loads(data)


_READERS: dict[str, Callable[[RegisteredSchema], Reader]] = {"AVRO": _avro, "PROTOBUF": _protobuf, "JSON": _json}
"""Keyed by the registry's names for the kinds of schemas."""


def _as_json(value: object) -> object:
    if isinstance(value, dict):
        return {str(name): _as_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(one) for one in value]
    if isinstance(value, bytes):
        return bytes_as_json(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, date | datetime | time_of_day):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
