"""The names of types: ksqlDB's as Spark's."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.products.sql.language.pieces import Piece, copied, replaced, stripped, text_of_pieces
from moldau.products.sql.language.tokens import Token

SPARK_TYPES = {"VARCHAR": "STRING", "BYTES": "BINARY"}
"""Types that Spark names otherwise. VARCHAR with a length stays."""


def spark_type(tokens: Sequence[Token]) -> str:
    """A type of ksqlDB or Spark, as Spark writes it. Field names of a STRUCT stay."""
    return text_of_pieces(stripped(type_pieces(tokens)))


def type_pieces(tokens: Sequence[Token]) -> list[Piece]:
    """`spark_type`, as pieces."""
    pieces: list[Piece] = []
    open_types: list[str] = []
    for at, token in enumerate(tokens):
        before, after = tokens[at - 1] if at else None, tokens[at + 1] if at + 1 < len(tokens) else None
        if token.says("<"):
            open_types.append(before.text.upper() if before is not None else "")
        elif token.says(">") and open_types:
            open_types.pop()
        names_field = open_types[-1:] == ["STRUCT"] and before is not None and before.says("<", ",")
        other = None if names_field else SPARK_TYPES.get(token.text.upper())
        if other is None or (after is not None and after.says("(")):
            pieces.extend(copied(token))
        else:
            pieces.extend(replaced(token, other))
    return pieces
