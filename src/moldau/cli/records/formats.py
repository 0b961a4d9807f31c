"""The formats of `--key-format` and `--value-format`: the bytes of Kafka's serializers as text and as JSON.

| format | bytes | text | in a JSON line |
|---|---|---|---|
| string | UTF-8 | as it is | string |
| integer, long | 4 or 8 bytes, signed, big endian | digits | number |
| double | 8 bytes, IEEE 754, big endian | digits, NaN, Infinity | number, or a string for NaN and Infinity |
| uuid | its text, as UUIDSerializer writes it | text | string |
| bytes | as they are | base64 | `{"base64": "..."}` |
| json | JSON | JSON | any JSON value |
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import re
import struct
from abc import ABC, abstractmethod
from typing import Final, Literal, Protocol

import msgspec

from moldau.cli.output import CommandError

Part = Literal["key", "value"]
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_DOUBLE: Final = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|NaN|Infinity)", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


class RecordFormat(Protocol):
    """Each method raises ValueError, whose text follows "the key" or "the value" in a sentence."""

    def from_text(self, text: bytes) -> bytes: ...

    def to_text(self, data: bytes) -> bytes: ...

    def from_json(self, value: object) -> bytes:
        """`value`: a JSON value other than null."""

    def to_json(self, data: bytes) -> object: ...


class _Text:
    def from_text(self, text: bytes) -> bytes:
        try:
            text.decode()
        except UnicodeDecodeError:
            raise ValueError(f"{_shown(text)} is not UTF-8") from None
        return text

    def to_text(self, data: bytes) -> bytes:
        return self.to_json(data).encode()

    def from_json(self, value: object) -> bytes:
        if not isinstance(value, str):
            raise ValueError(f"{_shown(value)} is not a string")
        return self.from_text(value.encode("utf-8", "surrogatepass"))

    def to_json(self, data: bytes) -> str:
        """As StringDeserializer: replaces invalid bytes."""
        return data.decode("utf-8", "replace")


class _Uuid(_Text):
    def from_text(self, text: bytes) -> bytes:
        found = text.decode("utf-8", "replace")
        if not _UUID.fullmatch(found):
            raise ValueError(f"{_shown(text)} is not a UUID such as 123e4567-e89b-12d3-a456-426614174000")
        return found.lower().encode()

    def to_json(self, data: bytes) -> str:
        return self.from_text(data).decode()


class _Number(ABC):
    """`code`: of struct. Subclasses read and write the text of a number."""

    def __init__(self, name: str, code: str) -> None:
        self._name = name
        self._number = struct.Struct(code)

    def from_text(self, text: bytes) -> bytes:
        return self._number.pack(self._read(text.decode("utf-8", "replace")))

    def to_text(self, data: bytes) -> bytes:
        return str(self.to_json(data)).encode()

    def from_json(self, value: object) -> bytes:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"{_shown(value)} is not {self._name}")
        return self._number.pack(self._read(_text_of(value)))

    def to_json(self, data: bytes) -> object:
        if len(data) != self._number.size:
            raise ValueError(f"has {len(data)} bytes, but {self._name} has {self._number.size}")
        (number,) = self._number.unpack(data)
        return _text_of(number) if isinstance(number, float) and not math.isfinite(number) else number

    @abstractmethod
    def _read(self, text: str) -> int | float: ...


class _Integer(_Number):
    def _read(self, text: str) -> int:
        largest = (1 << (8 * self._number.size - 1)) - 1
        if not _INTEGER.fullmatch(text) or not -largest - 1 <= int(text) <= largest:
            raise ValueError(f"{_shown(text)} is not {self._name} (from {-largest - 1} to {largest})")
        return int(text)


class _Double(_Number):
    def _read(self, text: str) -> float:
        if not _DOUBLE.fullmatch(text) or (math.isinf(float(text)) and "Infinity" not in text):
            raise ValueError(f"{_shown(text)} is not {self._name} (such as 1.5, -2e10, NaN or Infinity)")
        return float(text)


class _Bytes:
    def from_text(self, text: bytes) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except ValueError:
            raise ValueError(f"{_shown(text)} is not base64") from None

    def to_text(self, data: bytes) -> bytes:
        return base64.b64encode(data)

    def from_json(self, value: object) -> bytes:
        if not isinstance(value, dict) or list(value) != ["base64"] or not isinstance(value["base64"], str):
            raise ValueError(f'{_shown(value)} is not {{"base64": "..."}}')
        return self.from_text(value["base64"].encode("utf-8", "replace"))

    def to_json(self, data: bytes) -> object:
        return {"base64": base64.b64encode(data).decode()}


class _Json:
    def from_text(self, text: bytes) -> bytes:
        self.to_json(text)
        return text

    def to_text(self, data: bytes) -> bytes:
        """The same JSON on one line."""
        self.to_json(data)
        return msgspec.json.format(data, indent=-1) if b"\n" in data or b"\r" in data else data

    def from_json(self, value: object) -> bytes:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()

    def to_json(self, data: bytes) -> object:
        try:
            return json.loads(data.decode(), parse_constant=_reject)
        except (ValueError, RecursionError):
            raise ValueError(f"{_shown(data)} is not JSON") from None


FORMATS: Final[dict[str, RecordFormat]] = {
    "string": _Text(),
    "integer": _Integer("an integer", ">i"),
    "long": _Integer("a long", ">q"),
    "double": _Double("a double", ">d"),
    "uuid": _Uuid(),
    "bytes": _Bytes(),
    "json": _Json(),
}


def add_format_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """`--key-format` and `--value-format`. `verb`: what the command does with a key or value."""
    for part in ("key", "value"):
        parser.add_argument(
            f"--{part}-format",
            choices=list(FORMATS),
            help=f"how the {part} is {verb}, by Kafka's serializers; the text of bytes is base64 "
            "(default: its bytes are the text)",
        )


def encoded(part: Part, record_format: RecordFormat | None, text: bytes) -> bytes:
    """Without a format the text is the data. Raises CommandError."""
    if record_format is None:
        return text
    try:
        return record_format.from_text(text)
    except ValueError as error:
        raise CommandError(f"the {part} {error}") from None


def encoded_json(part: Part, record_format: RecordFormat, value: object) -> bytes | None:
    """Raises CommandError."""
    try:
        return None if value is None else record_format.from_json(value)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"the {part} {error}") from None


def _text_of(number: float | str) -> str:
    if isinstance(number, float) and not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return str(number)


def _shown(value: object) -> str:
    """The value in a message: short, without control characters."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    shown = repr(text) if isinstance(text, str) else json.dumps(text)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _reject(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")
