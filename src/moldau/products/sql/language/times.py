"""ksqlDB's own times compared with texts: `ROWTIME >= '2026-11-30T08:00'`. They are numbers of milliseconds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

from moldau.products.sql.language.errors import error_at
from moldau.products.sql.language.tokens import Kind, Token

_TIMES = ("ROWTIME", "WINDOWSTART", "WINDOWEND")
_COMPARED = ("=", "==", "!=", "<>", "<", "<=", ">", ">=")
_WRITTEN = re.compile(
    r"(\d{4})(?:-(\d\d?)(?:-(\d\d?))?)?(?:[T ](\d\d?)(?::(\d\d?)(?::(\d\d?)(?:\.(\d{1,9}))?)?)?)?"
    r"(Z|[+-]\d\d(?::?\d\d)?)?"
)


def millisecond_literals(source: str, tokens: Sequence[Token], columns: frozenset[str]) -> dict[int, int]:
    """The strings that are compared with a time of ksqlDB's (one of `columns`), as milliseconds since 1970 in UTC.

    By the places of the strings. Raises SqlError for a string that is no time.
    """
    found: dict[int, int] = {}
    for at, token in enumerate(tokens):
        if token.kind is not Kind.WORD or token.text.upper() not in columns or not token.says(*_TIMES):
            continue
        for place in _compared(tokens, at):
            if 0 <= place < len(tokens) and tokens[place].kind is Kind.STRING:
                found[place] = _milliseconds(source, tokens[place], token.text)
    return found


def _compared(tokens: Sequence[Token], at: int) -> list[int]:
    """The places where a string would be compared with the column at `at`."""
    before = at - 1 if at < 2 or not tokens[at - 1].says(".") else at - 3
    places = [before - 1] if before > 0 and tokens[before].says(*_COMPARED) else []
    after = at + 1
    if after < len(tokens) and tokens[after].says(*_COMPARED):
        places.append(after + 1)
    if after < len(tokens) and tokens[after].says("NOT"):
        after += 1
    if after < len(tokens) and tokens[after].says("BETWEEN"):
        places.extend((after + 1, after + 3))
    return places


def _milliseconds(source: str, token: Token, column: str) -> int:
    read = _WRITTEN.fullmatch(token.value.strip())
    if read is not None:
        year, month, day, hour, minute, second = (int(part or 0) for part in read.groups()[:6])
        try:
            moment = datetime(year, month or 1, day or 1, hour, minute, second, tzinfo=_zone(read[8]))
        except ValueError:
            pass
        else:
            whole = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
            return whole + int((read[7] or "0").ljust(3, "0")[:3])
    raise error_at(
        source,
        token.place,
        f"{column} is compared with a time as in '2026-11-30T08:00:00.000', and {token.text} is none",
        found=token.text,
    )


def _zone(written: str | None) -> timezone:
    if written is None or written == "Z":
        return UTC
    digits = written[1:].replace(":", "").ljust(4, "0")
    away = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-away if written[0] == "-" else away)
