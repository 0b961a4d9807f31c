"""Java's .properties format, as in Kafka's `server.properties`."""

from __future__ import annotations

import re
from collections.abc import Mapping

_UNICODE = re.compile(r"\\u([0-9a-fA-F]{4})")
_ESCAPE = re.compile(r"\\(.)")
_PLAIN = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"
_NAMED = {character: letter for letter, character in _PLAIN.items()}
_IN_NAMES = re.compile(r"[\\\t\n\r\f =:#!]")
_IN_VALUES = re.compile(r"[\\\n\r]|^[ \t\f]")


def parse_properties(text: str) -> dict[str, str]:
    """Names and values, in order. The last value of a repeated name counts. As in Java, no text is an error."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        name, value = _split(line)
        found.pop(name, None)
        found[name] = value
    return found


def format_properties(values: Mapping[str, str]) -> str:
    """The text that `parse_properties` reads as `values`, a line for each."""
    return "".join(f"{_escape(name, _IN_NAMES)}={_escape(value, _IN_VALUES)}\n" for name, value in values.items())


def _escape(text: str, special: re.Pattern[str]) -> str:
    return special.sub(lambda match: "\\" + _NAMED.get(match[0], match[0]), text)


def _logical_lines(text: str) -> list[str]:
    """Logical lines without comments and empty lines. A line that ends with a backslash continues on the next one."""
    lines: list[str] = []
    begun: str | None = None
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(_BLANKS)
        if begun is None and (not line or line[0] in "#!"):
            continue
        line = line if begun is None else begun + line
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            begun = line[:-1]
        else:
            lines.append(line)
            begun = None
    if begun is not None:
        lines.append(begun)
    return lines


def _split(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in "=:" + _BLANKS:
        position += 2 if line[position] == "\\" else 1
    name = line[:position]
    rest = line[position:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return _unescape(name), _unescape(rest)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    text = _UNICODE.sub(lambda match: chr(int(match.group(1), 16)), text)
    return _ESCAPE.sub(lambda match: _PLAIN.get(match.group(1), match.group(1)), text)
