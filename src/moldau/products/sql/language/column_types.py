"""The types in CAST: ksqlDB's names, and those of CREATE TYPE, as Spark's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.products.sql.language.pieces import Piece, copied, replaced
from moldau.products.sql.language.tokens import Token

_SPARK = {"varchar": "STRING", "bytes": "BINARY"}
"""Types that Spark names otherwise. VARCHAR with a length stays."""


def type_pieces(tokens: Sequence[Token], named: Mapping[str, str]) -> list[Piece]:
    """A type, as Spark writes it. Names of fields stay. `named`: the types of CREATE TYPE, by names in lower case."""
    pieces: list[Piece] = []
    open_types: list[str] = []
    for at, token in enumerate(tokens):
        before, after = tokens[at - 1] if at else None, tokens[at + 1] if at + 1 < len(tokens) else None
        if token.says("<"):
            open_types.append(before.text.upper() if before is not None else "")
        elif token.says(">") and open_types:
            open_types.pop()
        is_field = open_types[-1:] == ["STRUCT"] and before is not None and before.says("<", ",")
        is_type = token.is_name and not is_field and not (after is not None and after.says("("))
        name = token.value.lower()
        other = (named.get(name) or _SPARK.get(name)) if is_type else None
        pieces.extend(copied(token) if other is None else replaced(token, other))
    return pieces
