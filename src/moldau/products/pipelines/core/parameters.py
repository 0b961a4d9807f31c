"""Replaces `${NAME}` in a pipeline file by the value of that name; `\\${NAME}` stands for a literal `${NAME}`."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PARAMETER = re.compile(r"(\\?)\$\{([^{}\s]*)\}")


class UnknownParameterError(KeyError):
    """`name` has no value; `lines`: the number of line breaks before it in the text."""

    def __init__(self, name: str, lines: int) -> None:
        super().__init__(name)
        self.name = name
        self.lines = lines


def fill(text: str, values: Mapping[str, str]) -> str:
    """Does not replace within values. Raises UnknownParameterError."""

    def replace(found: re.Match[str]) -> str:
        if found[1]:
            return found[0][1:]
        if found[2] not in values:
            raise UnknownParameterError(found[2], text.count("\n", 0, found.start()))
        return values[found[2]]

    return _PARAMETER.sub(replace, text)
