"""Replaces `${name}` in the tokens of a statement.

A variable stands for one name, number or string, so a value cannot change what a statement does. In a string and in a
quoted name it is replaced within, and `$${name}` stands for `${name}`. Each token keeps its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from moldau.products.sql.language.errors import SqlError, error_at
from moldau.products.sql.language.tokens import MAX_BYTES, Kind, Token, tokenize
from moldau.types import nearest

_REFERENCE = re.compile(r"(\$?)\$\{([^\W\d]\w*)\}")
_ONE = (Kind.WORD, Kind.NAME, Kind.STRING, Kind.NUMBER)


def substituted(text: str, tokens: Sequence[Token], variables: Mapping[str, str]) -> list[Token]:
    """The tokens with the values of their variables. `text`: the script, for messages. `variables`: by names in lower
    case. Raises SqlError."""
    for first, second in pairwise(tokens):
        if Kind.VARIABLE in (first.kind, second.kind):
            _check_apart(text, first, second)
    values = _Values(text, variables)
    found: list[Token] = []
    for token in tokens:
        if token.kind is Kind.VARIABLE:
            found += values.instead_of(token)
        elif token.kind in (Kind.STRING, Kind.NAME) and _REFERENCE.search(token.value) is not None:
            found.append(values.within(token))
        else:
            found.append(token)
    return found


def _check_apart(text: str, first: Token, second: Token) -> None:
    """A value that touches a word would become a part of it."""
    if not second.before and second.kind is not Kind.END and Kind.SYMBOL not in (first.kind, second.kind):
        raise error_at(
            text,
            second.place,
            f"expected a blank between `{first.text}` and `{second.text}`",
            expected="a blank",
            found=second.text,
        )


class _Values:
    """The values of variables in one statement; all together have at most as many characters as a text."""

    def __init__(self, text: str, variables: Mapping[str, str]) -> None:
        self._text, self._variables = text, variables
        self._size = 0

    def instead_of(self, token: Token) -> list[Token]:
        """The tokens of the value of `${name}`."""
        parts = self._read(token, self._value(token, token.value))
        is_signed = len(parts) == 2 and parts[0].says("-", "+") and parts[1].kind is Kind.NUMBER
        if not is_signed and not (len(parts) == 1 and parts[0].kind in _ONE):
            raise self._error(
                token,
                f"the value of the variable `{token.value}` is not one name, number or string: a variable stands for "
                "one",
            )
        return [
            msgspec.structs.replace(
                part,
                before="" if place else token.before,
                offset=token.offset,
                line=token.line,
                column=token.column,
            )
            for place, part in enumerate(parts)
        ]

    def within(self, token: Token) -> Token:
        """A string or a quoted name with the values of the variables in it."""

        def replace(found: re.Match[str]) -> str:
            return found[0][1:] if found[1] else self._value(token, found[2])

        value = _REFERENCE.sub(replace, token.value)
        if token.kind is Kind.NAME:
            written = f"`{value.replace('`', '``')}`"
        else:
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            written = f"'{escaped}'"
        if len(self._read(token, written)) != 1:
            raise self._error(token, f"with the values of its variables, {token.text} is no {token.kind.value}")
        return msgspec.structs.replace(token, text=written, value=value)

    def _value(self, token: Token, name: str) -> str:
        value = self._variables.get(name.lower())
        if value is None:
            raise self._undefined(token, name)
        self._size += len(value)
        if self._size > MAX_BYTES:
            raise self._error(token, f"the values of the variables have more than {MAX_BYTES} characters")
        return value

    def _undefined(self, token: Token, name: str) -> SqlError:
        written = f"${{{name}}}"
        before = token.text.partition(written)[0]
        return error_at(
            self._text,
            (token.line, token.column + (0 if "\n" in before else len(before))),
            f"the variable `{name}` is not defined: write DEFINE {name} = '...' before",
            expected="a defined variable",
            found=written,
            near=nearest(name, self._variables),
        )

    def _read(self, token: Token, value: str) -> list[Token]:
        """The tokens of a value; none if it is not SQL."""
        try:
            return tokenize(value)[:-1]
        except SqlError:
            return []

    def _error(self, token: Token, problem: str) -> SqlError:
        return error_at(self._text, token.place, problem, found=token.text)
