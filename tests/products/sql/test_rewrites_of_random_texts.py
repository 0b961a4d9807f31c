"""Random sequences of words and symbols: a rewrite gives a text or an SqlError, never another error."""

from __future__ import annotations

import random

import pytest

from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.functions.table import FUNCTIONS
from moldau.products.sql.language.rewrites import Dialect, rewrite
from moldau.products.sql.language.tokens import tokenize

_SYMBOL_LIST = "( ) [ ] , , . -> => := + - * / || = < > :: ; <=>"
_WORD_LIST = """
a b x ROWTIME WINDOWSTART CASE WHEN THEN ELSE END SELECT FROM AS AND NOT BETWEEN CAST STRUCT MAP ARRAY FILTER LEFT AT
TIME ZONE DISTINCT OVER NULL TRUE DAYS VARCHAR transform exists explode
"""
_SYMBOLS, _WORDS = _SYMBOL_LIST.split(), _WORD_LIST.split()
_LITERALS = ["1", "-1", "0", "2.5", "'a'", "'it''s'", "'2026-11-30'", '"q"', "`n`", "'\\d'", "r'x'"]


def _text(chance: random.Random) -> str:
    names = sorted(FUNCTIONS)
    parts = []
    for _ in range(chance.randint(1, 25)):
        kind = chance.random()
        if kind < 0.4:
            parts.append(chance.choice(_SYMBOLS))
        elif kind < 0.65:
            parts.append(chance.choice(_WORDS))
        elif kind < 0.8:
            parts.append(chance.choice(_LITERALS))
        else:
            parts.append(f"{chance.choice(names)}(")
    text = chance.choice((" ", "\n", "")).join(parts) if chance.random() < 0.3 else " ".join(parts)
    missing = text.count("(") - text.count(")")
    return text + " )" * max(0, missing)


@pytest.mark.parametrize("dialect", Dialect)
def test_a_random_text_is_rewritten_or_refused(dialect: Dialect) -> None:
    columns = {"ROWTIME": "row_time", "ROWOFFSET": "row_offset", "ROWPARTITION": "row_partition"}
    rewritten = 0
    for seed in range(4_000):
        text = _text(random.Random(seed))
        try:
            tokens = tokenize(text)
            made = rewrite(text, tokens, columns=columns, dialect=dialect)
        except SqlError:
            continue
        rewritten += 1
        assert made.place_in_source(1, 1)[0] >= 1, text
    assert rewritten > 400
