"""Parses declared columns, `user string, amount decimal(10, 2)`, without Spark.

The grammar is that of Spark's own parser (`colTypeList` and `dataType` of its SqlBaseParser); a test reads the same
texts with both. The result has Spark's names of types (`DataType.simpleString`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NoReturn

from moldau.types import nearest

SYNONYMS = {
    "boolean": "boolean", "tinyint": "tinyint", "byte": "tinyint", "smallint": "smallint", "short": "smallint",
    "int": "int", "integer": "int", "bigint": "bigint", "long": "bigint", "float": "float", "real": "float",
    "double": "double", "date": "date", "timestamp": "timestamp", "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz", "binary": "binary", "void": "void", "variant": "variant",
}  # fmt: skip
"""Types of one word, and Spark's name for each."""

COMPLEX = (
    "array", "map", "struct", "decimal", "dec", "numeric", "string", "char", "character", "varchar", "interval",
    "time", "geometry", "geography",
)  # fmt: skip
"""Types of several words, or with brackets."""

KNOWN = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "char", "varchar",
    "binary", "date", "time", "timestamp", "timestamp_ntz", "interval", "array", "map", "struct", "variant", "void",
)  # fmt: skip
"""The types that an error message lists."""

OTHER_WORDS = {
    "datetime": "timestamp", "text": "string", "str": "string", "uuid": "string", "number": "double", "int64": "bigint",
    "int32": "int", "uint64": "decimal(20, 0)", "float32": "float", "float64": "double", "bytes": "binary",
    "blob": "binary", "json": "variant", "list": "array", "dict": "map", "object": "struct", "record": "struct",
}  # fmt: skip
"""Names from other systems that are too far from Spark's to be found by spelling."""

TIMES = ("timestamp", "timestamp_ntz")
"""The allowed types of an event time."""

MOST_DIGITS = 38
MICROSECONDS, NANOSECONDS = 6, 9
"""Digits of a second: the default, and the maximum."""
_YEARS = ("year", "month")
_DAYS = ("day", "hour", "minute", "second")

_TOKEN = re.compile(
    r"""
      (?P<skipped> --[^\n]* | /\*.*?\*/ | \s+ )
    | (?P<text> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
    | `(?P<quoted> (?:[^`]|``)+ )`
    | (?P<word> \w+ )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_END = ("end", "")


class ColumnsError(ValueError):
    """The text is not a valid list of columns; the message says what is wrong and what to write instead."""


def double_name(names: Iterable[str], *, in_any_case: bool = True) -> tuple[str, str] | None:
    """The first two of `names` that SQL does not tell apart, in their order. `in_any_case`: whether names that differ
    only in case are the same."""
    seen: dict[str, str] = {}
    for name in names:
        known = name.lower() if in_any_case else name
        if known in seen:
            return seen[known], name
        seen[known] = name
    return None


def columns_of(text: str) -> Mapping[str, str]:
    """The declared columns, in their order. Raises ColumnsError."""
    reader = _Reader(text)
    found = reader.columns(with_colons=False)
    reader.expect_end()
    double = double_name(name for name, _ in found)
    if double is not None:
        raise ColumnsError(
            f"has the columns `{double[0]}` and `{double[1]}`, which SQL does not tell apart: upper and lower case are "
            "one"
        )
    return dict(found)


def nearest_type(word: str) -> str | None:
    """The Spark type that was probably meant."""
    other = OTHER_WORDS.get(word.lower())
    return other or nearest(word, [*SYNONYMS, *COMPLEX])


class _Reader:
    """Reads from left to right."""

    def __init__(self, text: str) -> None:
        found = [(str(one.lastgroup), one[0] if one.lastgroup != "quoted" else one["quoted"].replace("``", "`"))
                 for one in _TOKEN.finditer(text)]  # fmt: skip
        self._tokens = [one for one in found if one[0] != "skipped"]
        self._at = 0
        self._column = ""

    def columns(self, *, with_colons: bool) -> list[tuple[str, str]]:
        """`with_colons`: a colon may stand between name and type, as in a struct."""
        found = []
        while True:
            name = self._name()
            self._column = name
            if with_colons:
                self._takes(":")
            found.append((name, self._type()))
            if self._takes("not") and not self._takes("null"):
                self._refuse("`null` after `not`")
            if self._takes("comment") and not self._takes_kind("text"):
                self._refuse("a text in quotes after `comment`")
            if not self._takes(","):
                return found

    def expect_end(self) -> None:
        if self._next() != _END:
            self._refuse("a comma")

    def _type(self) -> str:
        kind, word = self._next()
        name = word.lower()
        if kind != "word":
            self._refuse(f"the type of the column `{self._column}`")
        if name not in SYNONYMS and name not in COMPLEX:
            near = nearest_type(word)
            hint = f"; did you mean `{near}`?" if near else f"; known are {', '.join(KNOWN)}"
            raise ColumnsError(f"gives the column `{self._column}` the type `{word}`, which Spark does not know{hint}")
        self._at += 1
        if name.startswith("timestamp"):
            return self._timestamp(SYNONYMS[name])
        return SYNONYMS[name] if name in SYNONYMS else self._complex(name)

    def _timestamp(self, name: str) -> str:
        digits = self._digits()
        if name == "timestamp" and self._takes("without"):
            self._zone()
            name = "timestamp_ntz"
        return name if digits == MICROSECONDS else f"{name}({digits})"

    def _digits(self) -> int:
        (digits,) = self._numbers(1, 1) or (MICROSECONDS,)
        if digits > NANOSECONDS:
            raise ColumnsError(
                f"gives the column `{self._column}` a time of {digits} digits of a second: {NANOSECONDS} are the most"
            )
        return digits

    def _complex(self, name: str) -> str:
        if name == "array":
            (inner,) = self._inner(name, 1)
            return f"array<{inner}>"
        if name == "map":
            return f"map<{','.join(self._inner(name, 2))}>"
        if name == "struct":
            return self._struct()
        if name in ("char", "character", "varchar"):
            (length,) = self._numbers(1, 1) or self._refuse(f"a length, as in `{name}(20)`,")
            return f"{'varchar' if name == 'varchar' else 'char'}({length})"
        if name == "string":
            if self._takes("collate"):
                return f"string collate {self._name()}"
            return "string"
        if name == "interval":
            return self._interval()
        if name == "time":
            digits = self._digits()
            if self._takes("without"):
                self._zone()
            return f"time({digits})"
        if name.startswith("geo"):
            return self._place(name)
        return self._decimal()

    def _place(self, name: str) -> str:
        """A geographic type, with the number of its coordinate system, or `any`."""
        if not self._takes("("):
            self._refuse(f"a system of coordinates, as in `{name}(4326)`,")
        _, system = self._next()
        self._at += 1
        if not self._takes(")"):
            self._refuse("`)`")
        return f"{name}({system.lower()})"

    def _decimal(self) -> str:
        numbers = self._numbers(1, 2) or (10,)
        precision, scale = (*numbers, 0)[:2]
        if precision > MOST_DIGITS or scale > precision:
            raise ColumnsError(
                f"gives the column `{self._column}` the type decimal({precision}, {scale}): it has at most "
                f"{MOST_DIGITS} digits, of which at most all are after the point"
            )
        return f"decimal({precision},{scale})"

    def _inner(self, name: str, count: int) -> list[str]:
        if not self._takes("<"):
            self._refuse(f"what it holds, as in `{name}<{'string, int' if count > 1 else 'string'}>`,")
        found = [self._type()]
        while len(found) < count:
            if not self._takes(","):
                self._refuse("a comma")
            found.append(self._type())
        self._close()
        return found

    def _struct(self) -> str:
        if not self._takes("<"):
            self._refuse("what it holds, as in `struct<name: string>`,")
        if self._takes(">"):
            return "struct<>"
        outer = self._column
        fields = self.columns(with_colons=True)
        self._column = outer
        self._close()
        return f"struct<{','.join(f'{name}:{kind}' for name, kind in fields)}>"

    def _interval(self) -> str:
        """An interval of years and months, or of days to seconds, with the names of its first unit and, if different,
        its last."""
        for units in (_YEARS, _DAYS):
            first = next((unit for unit in units if self._takes(unit)), None)
            if first is None:
                continue
            if not self._takes("to"):
                return f"interval {first}"
            last = next((unit for unit in units[units.index(first) + 1 :] if self._takes(unit)), None)
            return f"interval {first} to {last or self._refuse(f'a smaller unit than {first}')}"
        return "interval"

    def _numbers(self, least: int, most: int) -> tuple[int, ...]:
        """Numbers in parentheses; () if absent."""
        if not self._takes("("):
            return ()
        found: list[int] = []
        while not found or (len(found) < most and self._takes(",")):
            kind, word = self._next()
            if kind != "word" or not re.fullmatch(r"[0-9]{1,9}", word):
                self._refuse("a number")
            found.append(int(word))
            self._at += 1
        if len(found) < least or not self._takes(")"):
            self._refuse("`)`")
        return tuple(found)

    def _zone(self) -> None:
        if not (self._takes("time") and self._takes("zone")):
            self._refuse("`time zone` after `without`")

    def _name(self) -> str:
        kind, word = self._next()
        if kind not in ("word", "quoted") or (kind == "word" and word.isdigit()):
            self._refuse("the name of a column")
        if kind == "word" and not word.isascii():
            raise ColumnsError(f"has a name that Spark reads in backquotes only: write `{word}` with them")
        self._at += 1
        return word

    def _close(self) -> None:
        if not self._takes(">"):
            self._refuse("`>`")

    def _takes(self, text: str) -> bool:
        """Takes `text` if it is next, in any case."""
        kind, word = self._next()
        if kind in ("word", "other") and word.lower() == text:
            self._at += 1
            return True
        return False

    def _takes_kind(self, wanted: str) -> bool:
        is_there = self._next()[0] == wanted
        self._at += is_there
        return is_there

    def _next(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _refuse(self, expected: str) -> NoReturn:
        kind, word = self._next()
        at = "at its end" if kind == "end" else f"before `{word}`"
        raise ColumnsError(
            f"must be names and Spark types, such as `user string, amount double`: {at}, {expected} is missing"
        )
