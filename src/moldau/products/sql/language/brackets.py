"""Where each bracket of a text is closed, and what brackets may hold."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.products.sql.language.errors import error_at, quoted
from moldau.products.sql.language.tokens import Token

MAX_DEPTH = 50
"""The deepest nesting of brackets and CASE. Each level takes several calls of Python's stack."""

_PAIRS = {"(": ")", "[": "]"}
_GENERATORS = ("EXPLODE", "CUBE_EXPLODE")


def closing_brackets(source: str, tokens: Sequence[Token]) -> dict[int, int]:
    """For each opening bracket the place of the bracket that closes it. Raises SqlError."""
    closing: dict[int, int] = {}
    opened: list[int] = []
    cases = 0
    for at, token in enumerate(tokens):
        cases = max(0, cases + token.says("CASE") - token.says("END"))
        if token.says(*_PAIRS):
            opened.append(at)
        elif token.says(*_PAIRS.values()):
            if not opened or _PAIRS[tokens[opened[-1]].text] != token.text:
                raise error_at(source, token.place, f"{quoted(token.text)} closes no bracket", found=token.text)
            closing[opened.pop()] = at
        if len(opened) + cases > MAX_DEPTH:
            raise error_at(source, token.place, f"brackets and CASE are nested deeper than {MAX_DEPTH} levels")
    if opened:
        left = tokens[opened[-1]]
        raise error_at(source, left.place, f"{quoted(left.text)} is not closed", found=left.text)
    return closing


def check_explodes(source: str, tokens: Sequence[Token]) -> None:
    """Refuses a second EXPLODE in the items of one SELECT: ksqlDB zips their rows, Spark takes one."""
    seen: list[bool | None] = [None]  # for each open bracket: whether its SELECT has an EXPLODE; None outside of items
    for at, token in enumerate(tokens):
        if token.says("("):
            seen.append(None)
        elif token.says(")"):
            seen.pop()
        elif token.says("SELECT"):
            seen[-1] = False
        elif token.says("FROM"):
            seen[-1] = None
        elif token.says(*_GENERATORS) and at + 1 < len(tokens) and tokens[at + 1].says("("):
            if seen[-1]:
                raise error_at(
                    source,
                    token.place,
                    "a SELECT has one EXPLODE: write inline(arrays_zip(a, b)) AS (x, y) for the rows of two",
                    found=token.text,
                )
            seen[-1] = None if seen[-1] is None else True
