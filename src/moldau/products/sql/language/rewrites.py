"""ksqlDB's spelling of expressions, rewritten into Spark SQL. Spark is not needed here.

What Spark SQL understands means what it means in Spark; what only ksqlDB understands is rewritten. In the dialect
`ksql`, what both understand means what it means in ksqlDB (docs/decisions, "dialects").

A rewrite keeps every line where it was. A rewritten call stands on its first line, and the lines that it took are
added after it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import msgspec

from moldau.products.sql.language.errors import place_of
from moldau.products.sql.language.expressions import Expressions
from moldau.products.sql.language.pieces import Place, offset_of, places_of, source_offset, stripped, text_of_pieces
from moldau.products.sql.language.tokens import Kind, Token

DIALECT = "sql.dialect"


class Dialect(enum.Enum):
    """The value of `SET 'sql.dialect'`."""

    SPARK = "spark"
    KSQL = "ksql"


def dialect_of(properties: Mapping[str, str]) -> Dialect:
    """`properties`: of SET, by names in lower case."""
    return Dialect(properties.get(DIALECT, Dialect.SPARK.value).lower())


class Rewrite(msgspec.Struct, frozen=True):
    """`was`, at a place of the source, became `now`. Long texts are cut."""

    line: int
    column: int
    was: str
    now: str


class Warned(msgspec.Struct, frozen=True):
    """What the author may have meant otherwise, at a place of the source."""

    line: int
    column: int
    message: str


class Rewritten(msgspec.Struct, frozen=True):
    """The text for Spark, what was rewritten, and warnings, in the order of the source."""

    text: str
    rewrites: tuple[Rewrite, ...]
    warnings: tuple[Warned, ...]
    source: str
    places: tuple[Place, ...]

    def place_in_source(self, line: int, column: int) -> tuple[int, int]:
        """The line and column of the source, both from 1, from which a place of `text` comes.

        Spark's errors name the place as `line 2 pos 33`; their `pos` is from 0.
        """
        return place_of(self.source, source_offset(self.places, offset_of(self.text, line, column)))


def rewrite(
    source: str,
    tokens: Sequence[Token],
    *,
    columns: Mapping[str, str],
    types: Mapping[str, str] | None = None,
    dialect: Dialect = Dialect.SPARK,
) -> Rewritten:
    """The tokens, an expression or a query of `source`, as Spark SQL.

    `columns`: the columns that hold ksqlDB's own: ROWTIME, WINDOWSTART and WINDOWEND in milliseconds as BIGINT,
    ROWPARTITION, ROWOFFSET. A name that is missing there stays as it is. `types`: the types of CREATE TYPE by names in
    any case, with Spark's names. Raises SqlError for what has no twin in Spark.
    """
    read = tokens[:-1] if tokens and tokens[-1].kind is Kind.END else tokens
    work = Expressions(source, read, columns, types or {}, is_ksql=dialect is Dialect.KSQL)
    pieces = stripped(work.rewritten(0, len(read)))
    done = sorted(work.done, key=lambda one: one[0].offset)
    told = sorted(work.told, key=lambda one: one[0].offset) if done or dialect is Dialect.KSQL else []
    rewrites = tuple(Rewrite(*token.place, was, now) for token, was, now in done)
    warnings = tuple(Warned(*token.place, message) for token, message in told)
    return Rewritten(text_of_pieces(pieces), rewrites, warnings, source, places_of(pieces))
