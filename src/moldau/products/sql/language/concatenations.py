"""Texts joined by `+` and `||` in ksqlDB's expressions.

ksqlDB adds texts with `+`; Spark adds numbers only. `a || b` leaves nulls out in ksqlDB and is null in Spark. The types
of columns are not known here: `+` joins texts where one operand of the sum is a string.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import msgspec

from moldau.products.sql.language.tokens import Kind, Token

_OPERATORS = ("+", "-", "*", "/", "%", "||")
_TIES = ("->", ".", "::")


class Sum(msgspec.Struct, frozen=True):
    """A chain of operands. `start`, `end`: its tokens; `operators`: their places. `joins_texts`: `+` joins texts in it;
    otherwise all its operators are `||`."""

    start: int
    end: int
    operators: tuple[int, ...]
    joins_texts: bool


def find_sums(
    tokens: Sequence[Token], first: int, last: int, closing: Mapping[int, int], keywords: frozenset[str]
) -> dict[int, Sum]:
    """The chains that join texts, by the place of their first token. Groups in brackets are not looked into."""
    sums: dict[int, Sum] = {}
    operators: list[int] = []
    start, wants, at = first, True, first

    def close(end: int) -> None:
        found = _judged(tokens, start, end, tuple(operators))
        if found is not None:
            sums[start] = found

    while at < last:
        token = tokens[at]
        if token.says(*_OPERATORS):
            if not wants:
                operators.append(at)
            wants = True
            at += 1
        elif token.says(*_TIES) and not wants:
            at += 2
        elif token.says("(", "[") and at in closing and (wants or token.text == "[" or tokens[at - 1].is_name):
            at, wants = closing[at] + 1, False
        elif token.says("CASE"):
            end = _after_case(tokens, at, last)
            sums.update(find_sums(tokens, at + 1, end - 1, closing, keywords))
            at, wants = end, False
        elif _is_operand(token, keywords) and (wants or token.kind is Kind.STRING):
            at, wants = at + 1, False
        else:
            close(at)
            ends = not _is_operand(token, keywords)
            start, operators, wants = (at + 1 if ends else at), [], ends
            at += 1
    close(last)
    return sums


def _is_operand(token: Token, keywords: frozenset[str]) -> bool:
    return token.kind not in (Kind.SYMBOL, Kind.END) and not (
        token.kind is Kind.WORD and token.text.upper() in keywords
    )


def _after_case(tokens: Sequence[Token], at: int, last: int) -> int:
    depth = 0
    for place in range(at, last):
        depth += tokens[place].says("CASE") - tokens[place].says("END")
        if depth == 0:
            return place + 1
    return last


def _judged(tokens: Sequence[Token], start: int, end: int, operators: tuple[int, ...]) -> Sum | None:
    written = {tokens[at].text for at in operators}
    if written == {"||"}:
        return Sum(start, end, operators, joins_texts=False)
    if written and written <= {"+", "||"}:
        edges = (start - 1, *operators, end)
        for left, right in itertools.pairwise(edges):
            if right - left != 2:
                continue
            one = tokens[left + 1]
            is_added = (left in operators and tokens[left].says("+")) or (
                right in operators and tokens[right].says("+")
            )
            if is_added and one.kind is Kind.STRING and one.text[0] == "'":
                return Sum(start, end, operators, joins_texts=True)
    return None
