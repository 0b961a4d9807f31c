"""Formats records for `kafka-console-consumer`: the columns of DefaultMessageFormatter, and deserializers.

`coordinator_formatters` has the formatters for records of coordinators.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, BinaryIO, Final, Protocol

import msgspec

from moldau.cli.kafka.connection import read_properties
from moldau.cli.kafka.options import Arguments, UsageError

_CONSUMER: Final = "org.apache.kafka.tools.consumer."
_SERIALIZATION: Final = "org.apache.kafka.common.serialization."
_OF_COORDINATORS: Final = ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter", "TransactionLogMessageFormatter")
_FORMATTERS: Final = (
    *("DefaultMessageFormatter", "LoggingMessageFormatter", "NoOpMessageFormatter"),
    *_OF_COORDINATORS,
)
# Kafka's tool copies the record without its leader epoch, so the epoch is Optional.empty().
_NO_EPOCH: Final = "NOT_PRESENT"

Deserializer = Callable[[bytes], bytes]


def _fixed(name: str, code: str) -> Deserializer:
    size = struct.calcsize(code)

    def read(data: bytes) -> bytes:
        if len(data) != size:
            raise ValueError(f"Size of data received by {name}Deserializer is not {size}")
        return str(struct.unpack(code, data)[0]).encode()

    return read


def _boolean(data: bytes) -> bytes:
    if data not in (b"\x00", b"\x01"):
        raise ValueError("Size of data received by BooleanDeserializer is not 1")
    return b"true" if data == b"\x01" else b"false"


def _uuid(data: bytes) -> bytes:
    from uuid import UUID

    return str(UUID(data.decode())).encode()


def _as_it_is(data: bytes) -> bytes:
    return data


DESERIALIZERS: Final[dict[str, Deserializer]] = {
    "String": _as_it_is,
    "ByteArray": _as_it_is,
    "Bytes": _as_it_is,
    "Short": _fixed("Short", ">h"),
    "Integer": _fixed("Integer", ">i"),
    "Long": _fixed("Long", ">q"),
    "Float": _fixed("Float", ">f"),
    "Double": _fixed("Double", ">d"),
    "Boolean": _boolean,
    "UUID": _uuid,
}
"""Keyed by the name before `Deserializer`; prints bytes unchanged."""


class RecordWriter(Protocol):
    """The interface of a formatter."""

    def write(self, message: Any, output: BinaryIO) -> None:
        """Writes one record. Raises ValueError for bytes that the formatter cannot read."""


class Formatter(msgspec.Struct, frozen=True):
    """Writes the chosen columns of a record."""

    with_timestamp: bool = False
    with_partition: bool = False
    with_offset: bool = False
    with_epoch: bool = False
    with_headers: bool = False
    with_key: bool = False
    with_value: bool = True
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"
    read_key: Deserializer = _as_it_is
    read_value: Deserializer = _as_it_is
    read_header: Deserializer = _as_it_is
    is_silent: bool = False

    def write(self, message: Any, output: BinaryIO) -> None:
        """Writes one record. Raises ValueError for bytes that the deserializer rejects."""
        if self.is_silent:
            return
        columns: list[bytes] = []
        if self.with_timestamp:
            kind, timestamp = message.timestamp()
            texts = {1: f"CreateTime:{timestamp}", 2: f"LogAppendTime:{timestamp}"}
            columns.append(texts.get(kind, "NO_TIMESTAMP").encode())
        if self.with_partition:
            columns.append(f"Partition:{message.partition()}".encode())
        if self.with_offset:
            columns.append(f"Offset:{message.offset()}".encode())
        if self.with_epoch:
            columns.append(f"Epoch:{_NO_EPOCH}".encode())
        if self.with_headers:
            columns.append(self._headers(message.headers() or []))
        if self.with_key:
            columns.append(self._field(message.key(), self.read_key))
        if self.with_value:
            columns.append(self._field(message.value(), self.read_value))
        output.write(self.key_separator.join(columns) + self.line_separator)

    def _headers(self, headers: list[tuple[str, bytes | None]]) -> bytes:
        if not headers:
            return b"NO_HEADERS"
        return self.headers_separator.join(
            name.encode() + b":" + self._field(value, self.read_header) for name, value in headers
        )

    def _field(self, data: bytes | None, read: Deserializer) -> bytes:
        return self.null_literal if data is None else read(data)


def make_formatter(arguments: Arguments) -> RecordWriter:
    """Raises UsageError for an unknown formatter class."""
    path = arguments.text("formatter-config")
    values = read_properties(path) if path else {}
    for name in ("formatter-property", "property"):
        for pair in arguments.texts(name):
            key, _, value = pair.partition("=")
            values[key] = value
    class_name = arguments.required("formatter")
    if not class_name.startswith(_CONSUMER):
        raise UsageError(class_name)
    formatter = class_name.removeprefix(_CONSUMER)
    if formatter not in _FORMATTERS:
        raise UsageError(f"{class_name} is not known here: of {_CONSUMER}* are {', '.join(_FORMATTERS)}")
    if formatter in _OF_COORDINATORS:
        from moldau.cli.kafka.coordinator_formatters import CoordinatorFormatter

        return CoordinatorFormatter(formatter)

    def has(name: str, default: str = "false") -> bool:
        return values.get(name, default).strip().lower() == "true"

    return Formatter(
        with_timestamp=has("print.timestamp"),
        with_partition=has("print.partition"),
        with_offset=has("print.offset"),
        with_epoch=has("print.epoch"),
        with_headers=has("print.headers"),
        with_key=has("print.key"),
        with_value=has("print.value", "true"),
        key_separator=values.get("key.separator", "\t").encode(),
        line_separator=values.get("line.separator", "\n").encode(),
        headers_separator=values.get("headers.separator", ",").encode(),
        null_literal=values.get("null.literal", "null").encode(),
        read_key=_deserializer(arguments.text("key-deserializer") or values.get("key.deserializer")),
        read_value=_deserializer(arguments.text("value-deserializer") or values.get("value.deserializer")),
        read_header=_deserializer(values.get("headers.deserializer")),
        is_silent=formatter == "NoOpMessageFormatter",
    )


def _deserializer(class_name: str | None) -> Deserializer:
    if class_name is None:
        return _as_it_is
    name = class_name.removeprefix(_SERIALIZATION).removesuffix("Deserializer")
    if not class_name.startswith(_SERIALIZATION) or name not in DESERIALIZERS:
        raise UsageError(f"{class_name} is not known here: of {_SERIALIZATION}* are {', '.join(DESERIALIZERS)}")
    return DESERIALIZERS[name]
