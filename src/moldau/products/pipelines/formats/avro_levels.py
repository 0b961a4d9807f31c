"""Counts the levels of a recursive Avro value. Too many overflow the C stack in `fastavro` and end the process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MOST_LEVELS = 300
_WIDTHS = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def check_levels(form: Any, value: bytes) -> None:
    """`form`: a schema that defines each named type before its use. Raises ValueError for a value with more than
    MOST_LEVELS, or one that ends within a field."""
    _Walk(form, value).walk(form, 0, 0)


class _Walk:
    def __init__(self, form: Any, value: bytes) -> None:
        self._value = value
        self._named = {one["name"]: one for one in _named(form)}

    def walk(self, form: Any, at: int, level: int) -> int:
        """The end of the value of that form that begins at `at`."""
        if level > MOST_LEVELS:
            raise ValueError(f"the value has more than {MOST_LEVELS} levels")
        if isinstance(form, list):
            place, at = self._long(at)
            return self.walk(form[place], at, level + 1) if 0 <= place < len(form) else len(self._value)
        if isinstance(form, str):
            return self.walk(self._named[form], at, level) if form in self._named else self._primitive(form, at)
        if form["type"] == "record":
            for field in form["fields"]:
                at = self.walk(field["type"], at, level + 1)
            return at
        if form["type"] in ("array", "map"):
            return self._blocks(form, at, level)
        return at + form["size"] if form["type"] == "fixed" else self._primitive(form["type"], at)

    def _primitive(self, kind: str, at: int) -> int:
        if kind in _WIDTHS:
            return at + _WIDTHS[kind]
        number, at = self._long(at)
        return at + max(number, 0) if kind in ("bytes", "string") else at

    def _blocks(self, form: Any, at: int, level: int) -> int:
        while True:
            count, at = self._long(at)
            if count == 0:
                return at
            if count < 0:
                _, at = self._long(at)
            for _ in range(abs(count)):
                if form["type"] == "map":
                    at = self._primitive("string", at)
                at = self.walk(form["items" if form["type"] == "array" else "values"], at, level + 1)
                if at > len(self._value):
                    raise ValueError("the value ends within a field")

    def _long(self, at: int) -> tuple[int, int]:
        number = shift = 0
        for place, byte in enumerate(self._value[at : at + 10], at + 1):
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1), place
            shift += 7
        raise ValueError("the value ends within a field")


def _named(form: Any) -> Iterator[dict[str, Any]]:
    if isinstance(form, list):
        for one in form:
            yield from _named(one)
    elif isinstance(form, dict):
        if "name" in form:
            yield form
        for one in form.get("fields", ()):
            yield from _named(one["type"])
        for key in ("items", "values"):
            yield from _named(form.get(key))
