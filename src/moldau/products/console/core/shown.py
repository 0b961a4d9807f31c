"""Bytes and numbers from outside as readable text. Nothing here raises.

The result is plain text. The templates escape it, and the live tail sets it as text, never as markup.
"""

from __future__ import annotations

import json
import re

import msgspec

from moldau.products.service.look.words import visible

MAX_SHOWN_BYTES = 4_096
"""How many bytes of a key or a value are shown; the rest is only counted."""
MAX_HEADERS = 20


class Shown(msgspec.Struct, frozen=True):
    """`kind`: null, empty, json, text or binary (then `text` is hexadecimal). `size`: bytes of the whole value."""

    text: str
    kind: str
    size: int
    is_cut: bool = False
    pretty: str = ""
    """JSON on several lines; numbers and strings keep their original text."""


class ShownRecord(msgspec.Struct, frozen=True):
    """`timestamp_ms` since the epoch, -1 for none."""

    partition: int
    offset: int
    timestamp_ms: int
    key: Shown
    value: Shown
    headers: tuple[tuple[str, Shown], ...] = ()


def show_bytes(data: bytes | None) -> Shown:
    """JSON on one line; text with visible control characters; any other bytes in hexadecimal."""
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
        # the cut may divide a character
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
    """Valid JSON with two spaces for each depth. Keeps every token: digits of numbers and duplicate keys stay."""
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
