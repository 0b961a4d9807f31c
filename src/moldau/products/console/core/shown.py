"""Foreign bytes and numbers as people read them. Nothing here raises, whatever the bytes are.

What comes out is plain text: the templates escape it once more, and the live tail sets it as text, never as markup.
"""

from __future__ import annotations

import json
import re
import unicodedata

import msgspec

MAX_SHOWN_BYTES = 4_096
"""Of a key or a value; the rest is counted, not shown."""
MAX_HEADERS = 20

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


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


def visible(text: str) -> str:
    """Control, format and surrogate characters as \\x.. : an override of the writing direction could lie about the
    rest of the line."""
    return "".join(
        character if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )  # fmt: skip


def show_size(count: float | None) -> str:
    """Bytes: `1.5 MiB`; a dash for what is not known."""
    if count is None or count < 0:
        return "–"
    size = float(count)
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return ""


def show_count(count: float | None) -> str:
    """`12,345`; a dash for what is not known."""
    return "–" if count is None else f"{count:,.0f}"


def show_duration(seconds: int | None) -> str:
    """`45 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`; a dash for what is not known."""
    if seconds is None:
        return "–"
    for size, unit, smaller, smaller_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size} {unit} {rest} {smaller_unit}" if rest else f"{seconds // size} {unit}"
    return f"{seconds} s"


def show_rate(rate: float | None) -> str:
    """A second: `12.3k`."""
    if rate is None:
        return "–"
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rate >= factor:
            return f"{rate / factor:.1f}{unit}"
    return f"{rate:.1f}" if 0 < rate < 10 else f"{rate:.0f}"
