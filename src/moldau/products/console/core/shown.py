"""Foreign bytes and numbers as text for people. Nothing here raises.

The result is plain text. The templates escape it, and the live tail sets it as text, never as markup.
"""

from __future__ import annotations

import json
import re

import msgspec

from moldau.products.service.look.words import visible

MAX_SHOWN_BYTES = 4_096
"""Of a key or a value; the rest is counted, not shown."""
MAX_HEADERS = 20


class Shown(msgspec.Struct, frozen=True):
    """`kind`: null, empty, json, text or binary (then `text` is hexadecimal). `size` in bytes, of the whole."""

    text: str
    kind: str
    size: int
    is_cut: bool = False
    pretty: str = ""
    """JSON over several lines, its numbers and strings as they were sent."""


class ShownRecord(msgspec.Struct, frozen=True):
    """`timestamp_ms` since the epoch, -1: none."""

    partition: int
    offset: int
    timestamp_ms: int
    key: Shown
    value: Shown
    headers: tuple[tuple[str, Shown], ...] = ()


def show_bytes(data: bytes | None) -> Shown:
    """JSON in one line, text with control characters made visible, anything else in hexadecimal."""
    if data is None:
        return Shown("null", "null", 0)
    size = len(data)
    if not size:
        return Shown("", "empty", 0)
    cut = data[:MAX_SHOWN_BYTES]
    is_cut = size > MAX_SHOWN_BYTES
    try:
        text = cut.decode("utf-8")
    except UnicodeDecodeError as error:
        # a character may stand across the cut
        if not is_cut or error.start < len(cut) - 3:
            return Shown(cut[:256].hex(" "), "binary", size, size > 256)
        text = cut[: error.start].decode("utf-8")
    if sum(character < " " and character not in "\t\r\n" for character in text) * 10 > len(text):
        return Shown(cut[:256].hex(" "), "binary", size, size > 256)
    kind = "text"
    if not is_cut and text[0] in "{[":
        try:
            json.loads(text)
            kind = "json"
        except (ValueError, RecursionError):
            kind = "text"
    return Shown(visible(text), kind, size, is_cut, visible(indent_json(text)) if kind == "json" else "")


_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+')


def indent_json(text: str) -> str:
    """Valid JSON with two spaces for each depth. No token changes: a number keeps its digits, a double key stays."""
    lines, line, depth = [], "", 0
    tokens = _JSON_TOKEN.findall(text)
    for index, token in enumerate(tokens):
        if token in "{[":
            depth += 1
            if tokens[index + 1] in "}]":
                line += token
                continue
            lines.append(line + token)
            line = "  " * depth
        elif token in "}]":
            depth -= 1
            if tokens[index - 1] not in "{[":
                lines.append(line)
                line = "  " * depth
            line += token
        elif token == ",":
            lines.append(line + token)
            line = "  " * depth
        else:
            line += ": " if token == ":" else token
    return "\n".join([*lines, line])
