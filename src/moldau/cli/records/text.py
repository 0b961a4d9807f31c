"""A record as text: the JSON lines that `consume --json` prints and `produce --json` reads, and output templates.

A key, value or header value is a JSON string if its bytes are UTF-8, `{"base64": "..."}` if they are not, and
null if there is none (a value of null is a tombstone). See docs/decisions/0022-records-as-json.md.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from moldau.cli.output import CommandError
from moldau.cli.records.formats import RecordFormat, encoded_json

_MAX_INT32 = (1 << 31) - 1
_MAX_INT64 = (1 << 63) - 1
_FIELDS = ("key", "value", "headers", "timestamp", "partition", "offset", "topic")


class Record(msgspec.Struct, frozen=True):
    """The parts of a record that are written."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int | None = None
    """None means the time of writing."""
    partition: int | None = None
    """None means by the hash of the key."""


# --- JSON ---


def from_json(line: bytes, key_format: RecordFormat | None = None, value_format: RecordFormat | None = None) -> Record:
    """The record of a line. Ignores topic and offset. Raises CommandError for text that is not a record."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CommandError("this is not JSON") from error
    if not isinstance(fields, dict):
        raise CommandError('a record is an object such as {"key": "k1", "value": "coffee"}')
    unknown = [name for name in fields if name not in _FIELDS]
    if unknown:
        raise CommandError(f"a record has no field {unknown[0]!r}, only {', '.join(_FIELDS)}")
    if "value" not in fields:
        raise CommandError('"value" is missing (null writes a tombstone)')
    key, value = fields.get("key"), fields["value"]
    return Record(
        _from_json("key", key) if key_format is None else encoded_json("key", key_format, key),
        _from_json("value", value) if value_format is None else encoded_json("value", value_format, value),
        _headers(fields.get("headers")),
        _number("timestamp", fields.get("timestamp"), _MAX_INT64),
        _number("partition", fields.get("partition"), _MAX_INT32),
    )


def _from_json(name: str, value: object) -> bytes | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, dict) and list(value) == ["base64"]:
            return base64.b64decode(value["base64"], validate=True)
    except (binascii.Error, TypeError, ValueError):
        pass
    raise CommandError(f'"{name}" is a string, {{"base64": "..."}} or null')


def _headers(value: object) -> list[tuple[str, bytes | None]]:
    pairs = list(value.items()) if isinstance(value, dict) else value
    if pairs is None:
        return []
    if isinstance(pairs, list):
        found = [
            (pair[0], _from_json("headers", pair[1]))
            for pair in pairs
            if isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str)
        ]
        if len(found) == len(pairs):
            return found
    raise CommandError('"headers" is a list such as [["trace", "1"]]')


def _number(name: str, value: object, largest: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        raise CommandError(f'"{name}" is a whole number from 0 to {largest}, or null')
    return value


# --- templates ---

_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|\\(.)|[{}]", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
TEMPLATE_FIELDS = ("topic", "partition", "offset", "timestamp", "time", "key", "value", "headers", "header.NAME")

Part = Callable[[Any], bytes]


def parse_template(text: str, null: bytes) -> Part:
    """Writes a message by `{partition}:{offset} {key} {value}`; `null` stands for an absent part. Raises CommandError
    for an unknown field."""
    parts: list[Part] = []
    position = 0
    for found in _PLACE.finditer(text):
        parts.append(_constant(text[position : found.start()]))
        position = found.end()
        name, escaped = found[1], found[2]
        if name is not None:
            parts.append(_field(name, null))
        elif escaped is not None:
            parts.append(_constant(_ESCAPES.get(escaped, found[0])))
        elif len(found[0]) == 2:
            parts.append(_constant(found[0][0]))
        else:
            raise CommandError(f"--template: {found[0]} stands alone; write it twice to print one")
    parts.append(_constant(text[position:]))
    return lambda message: b"".join(part(message) for part in parts)


def _constant(text: str) -> Part:
    data = text.encode("utf-8", "surrogateescape")
    return lambda _: data


def _field(name: str, null: bytes) -> Part:
    if name.startswith("header."):
        wanted = name.removeprefix("header.")
        return lambda message: next((_or(value, null) for key, value in message.headers() or [] if key == wanted), null)
    if name not in _WRITERS:
        raise CommandError(
            f"--template has no field {{{name}}}, only {', '.join(f'{{{one}}}' for one in TEMPLATE_FIELDS)}"
        )
    writer = _WRITERS[name]
    return lambda message: _or(writer(message), null)


def _or(data: bytes | None, null: bytes) -> bytes:
    return null if data is None else data


def _time(message: Any) -> bytes | None:
    kind, timestamp = message.timestamp()
    if not kind:
        return None
    try:
        moment = datetime.fromtimestamp(timestamp / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp).encode()
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()


def _pairs(message: Any) -> bytes:
    return b",".join(name.encode() + b"=" + _or(value, b"") for name, value in message.headers() or [])


_WRITERS: dict[str, Callable[[Any], bytes | None]] = {
    "topic": lambda message: message.topic().encode(),
    "partition": lambda message: str(message.partition()).encode(),
    "offset": lambda message: str(message.offset()).encode(),
    "timestamp": lambda message: str(message.timestamp()[1]).encode() if message.timestamp()[0] else None,
    "time": _time,
    "key": lambda message: message.key(),
    "value": lambda message: message.value(),
    "headers": _pairs,
}
