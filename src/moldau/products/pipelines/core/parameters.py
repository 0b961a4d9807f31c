"""Replaces `${NAME}` in a pipeline file by the value of that name; `\\${NAME}` stands for `${NAME}` itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PARAMETER = re.compile(r"(\\?)\$\{([^{}\s]*)\}")


class UnknownParameterError(KeyError):
    """`name` has no value; `lines`: how many line breaks stand before it in its text."""

    def __init__(self, name: str, lines: int) -> None:
        super().__init__(name)
        self.name = name
        self.lines = lines


def fill(text: str, values: Mapping[str, str]) -> str:
    """Raises UnknownParameterError. A value is not looked through again."""

    def replace(found: re.Match[str]) -> str:
        if found[1]:
            return found[0][1:]
        if found[2] not in values:
            raise UnknownParameterError(found[2], text.count("\n", 0, found.start()))
        return values[found[2]]

    return _PARAMETER.sub(replace, text)
