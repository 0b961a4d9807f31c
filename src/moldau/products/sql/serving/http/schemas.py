"""Spark's types as ksqlDB's."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

_BASES = {
    "boolean": "BOOLEAN", "tinyint": "INTEGER", "byte": "INTEGER", "smallint": "INTEGER", "short": "INTEGER",
    "int": "INTEGER", "integer": "INTEGER", "bigint": "BIGINT", "long": "BIGINT", "float": "DOUBLE", "real": "DOUBLE",
    "double": "DOUBLE", "decimal": "DECIMAL", "string": "STRING", "char": "STRING", "varchar": "STRING",
    "binary": "BYTES", "date": "DATE", "time": "TIME", "timestamp": "TIMESTAMP", "timestamp_ntz": "TIMESTAMP",
}  # fmt: skip
"""ksqlDB's types of Spark's. All others are texts in JSON."""
_TOKEN = re.compile(r"`((?:[^`]|``)+)`|(\w+)|(\S)")
_END = ("", "")


class KsqlType(msgspec.Struct, frozen=True, kw_only=True):
    """`base`: ksqlDB's word. `spark`: Spark's name of the whole type. `precision`, `scale`: of DECIMAL. `key`: of MAP;
    `member`: of ARRAY and MAP. `fields`: of STRUCT."""

    base: str
    spark: str
    precision: int = 10
    scale: int = 0
    key: KsqlType | None = None
    member: KsqlType | None = None
    fields: tuple[tuple[str, KsqlType], ...] = ()

    @property
    def text(self) -> str:
        """As ksqlDB writes it: `ARRAY<DECIMAL(4, 2)>`."""
        match self.base:
            case "DECIMAL":
                return f"DECIMAL({self.precision}, {self.scale})"
            case "ARRAY":
                return f"ARRAY<{_text(self.member)}>"
            case "MAP":
                return f"MAP<STRING, {_text(self.member)}>"
            case "STRUCT":
                return f"STRUCT<{', '.join(f'`{name}` {one.text}' for name, one in self.fields)}>"
        return self.base

    @property
    def schema(self) -> dict[str, object]:
        """ksqlDB's schema object."""
        found: dict[str, object] = {
            "type": self.base,
            "fields": None,
            "memberSchema": None if self.member is None else self.member.schema,
        }
        if self.base == "STRUCT":
            found["fields"] = [{"name": name, "schema": one.schema} for name, one in self.fields]
        if self.base == "DECIMAL":
            found["parameters"] = {"precision": self.precision, "scale": self.scale}
        return found


def _text(member: KsqlType | None) -> str:
    return "STRING" if member is None else member.text


def ksql_type(spark: str) -> KsqlType:
    """The type of one of Spark's, as in `struct<a:int>`. A type that ksqlDB does not have is a STRING."""
    return _Reader(spark).type()


def schema_text(columns: Sequence[tuple[str, str]]) -> str:
    """Names and Spark types as the schema of a query's header: "`ID` BIGINT, `NAME` STRING"."""
    return ", ".join(f"`{name}` {ksql_type(spark).text}" for name, spark in columns)


class _Reader:
    """Reads a type from left to right. Spark has made the text, so an odd one is read as far as it goes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_TOKEN.finditer(text))
        self._at = 0

    def type(self) -> KsqlType:
        start = self._at
        word = self._take()[0].lower()
        if word == "struct" and self._takes("<"):
            fields = self._fields()
            return KsqlType(base="STRUCT", spark=self._since(start), fields=fields)
        if word in ("array", "map") and self._takes("<"):
            members = [self.type()]
            while self._takes(","):
                members.append(self.type())
            self._takes(">")
            key = members[0] if word == "map" else None
            return KsqlType(base=word.upper(), spark=self._since(start), key=key, member=members[-1])
        numbers = self._numbers()
        while self._next()[0].lower() in ("day", "to", "second", "year", "month", "hour", "minute"):  # of INTERVAL
            self._take()
        base = _BASES.get(word, "STRING")
        if base == "DECIMAL":
            precision, scale = ([*numbers, 0] if numbers else [10, 0])[:2]
            return KsqlType(base=base, spark=self._since(start), precision=precision, scale=scale)
        return KsqlType(base=base, spark=self._since(start))

    def _fields(self) -> tuple[tuple[str, KsqlType], ...]:
        found: list[tuple[str, KsqlType]] = []
        while not self._takes(">") and self._next() != _END:
            name = self._take()[0]
            self._takes(":")
            found.append((name, self.type()))
            self._takes(",")
        return tuple(found)

    def _numbers(self) -> list[int]:
        found: list[int] = []
        if self._takes("("):
            while not self._takes(")") and self._next() != _END:
                token = self._take()[0]
                found += [int(token)] if token.isdecimal() else []
        return found

    def _since(self, start: int) -> str:
        taken = self._tokens[start : self._at]
        return self._text[taken[0].start() : taken[-1].end()] if taken else ""

    def _next(self) -> tuple[str, str]:
        """A name or word, and a symbol; one of them is empty."""
        if self._at >= len(self._tokens):
            return _END
        quoted, word, symbol = self._tokens[self._at].groups()
        return quoted.replace("``", "`") if quoted else word or "", symbol or ""

    def _take(self) -> tuple[str, str]:
        found = self._next()
        self._at += found != _END
        # a symbol in the place of a name
        return found if found[0] or found == _END else (found[1], found[1])

    def _takes(self, symbol: str) -> bool:
        is_next = self._next() == ("", symbol)
        self._at += is_next
        return is_next
