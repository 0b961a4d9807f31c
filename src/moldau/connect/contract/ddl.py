"""Reads a schema in DDL (`a INT NOT NULL, b ARRAY<STRING>`), for Spark's own parser needs a session.

Types: BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, CHAR(n), VARCHAR(n), BINARY, DATE,
TIMESTAMP, TIMESTAMP_NTZ, VARIANT, ARRAY<>, MAP<,>, STRUCT<>, and Spark's other names of them. A column may have
NOT NULL and COMMENT. Everything else is rejected by its name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
)

from moldau.connect.contract.bounds import MAX_DDL_DEPTH

PLAIN: Final[dict[str, Callable[[], DataType]]] = {
    "BOOLEAN": BooleanType,
    "TINYINT": ByteType,
    "BYTE": ByteType,
    "SMALLINT": ShortType,
    "SHORT": ShortType,
    "INT": IntegerType,
    "INTEGER": IntegerType,
    "BIGINT": LongType,
    "LONG": LongType,
    "FLOAT": FloatType,
    "REAL": FloatType,
    "DOUBLE": DoubleType,
    "STRING": StringType,
    "BINARY": BinaryType,
    "DATE": DateType,
    "TIMESTAMP": TimestampType,
    "TIMESTAMP_LTZ": TimestampType,
    "TIMESTAMP_NTZ": TimestampNTZType,
    "VARIANT": VariantType,
}
_DECIMAL: Final = ("DECIMAL", "DEC", "NUMERIC")
_NESTED: Final = ("ARRAY", "MAP", "STRUCT")
_SIZED: Final[dict[str, Callable[[int], DataType]]] = {"CHAR": CharType, "CHARACTER": CharType, "VARCHAR": VarcharType}
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<word>\w+)|(?P<sign>[<>(),:]))"
)


class DdlError(ValueError):
    """A text that is not DDL, or has what this module does not read."""


class _Token(NamedTuple):
    kind: str
    text: str
    at: int

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind == "word" else self.text


def parse_ddl(text: str) -> StructType:
    """The schema of the columns. Also takes one STRUCT<...>. Raises DdlError."""
    reader = _Reader(text)
    first = reader.peek()
    if first.upper == "STRUCT" and reader.peek(1).text == "<":
        kind = reader.read_type(0)
        reader.expect_end()
        if isinstance(kind, StructType):
            return kind
    fields = reader.read_fields(0, end="")
    reader.expect_end()
    return StructType(fields)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._index = 0

    def peek(self, ahead: int = 0) -> _Token:
        index = self._index + ahead
        return self._tokens[index] if index < len(self._tokens) else _Token("end", "", len(self._text))

    def read_fields(self, depth: int, end: str) -> list[StructField]:
        """Columns with commas, up to `end`, which is not taken."""
        fields: list[StructField] = []
        while self.peek().text != end or not end:
            fields.append(self._field(depth))
            if self.peek().text != ",":
                break
            self._take()
        names = [one.name for one in fields]
        for name in names:
            if names.count(name) > 1:
                raise DdlError(f"the column {name!r} stands twice in the schema {self._text!r}")
        return fields

    def _field(self, depth: int) -> StructField:
        token = self._take()
        if token.kind not in ("word", "quoted"):
            raise self._error(token, "the name of a column")
        name = token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text
        if self.peek().text == ":":
            self._take()
        kind = self.read_type(depth)
        is_nullable, metadata = True, {}
        while self.peek().kind == "word":
            word = self._take()
            if word.upper == "NOT" and self.peek().upper == "NULL":
                self._take()
                is_nullable = False
            elif word.upper == "COMMENT" and self.peek().kind == "text":
                metadata["comment"] = re.sub(r"\\(.)", r"\1", self._take().text[1:-1])
            else:
                raise DdlError(f"{word.text} of the column {name!r} is not read here, only NOT NULL and COMMENT")
        return StructField(name, kind, is_nullable, metadata)

    def read_type(self, depth: int) -> DataType:
        if depth > MAX_DDL_DEPTH:
            raise DdlError(f"the schema has more than {MAX_DDL_DEPTH} nested types")
        token = self._take()
        name = token.upper
        if token.kind != "word":
            raise self._error(token, "a type")
        if name in PLAIN:
            return PLAIN[name]()
        if name in _DECIMAL:
            return self._decimal()
        if name in _SIZED:
            return _SIZED[name](self._numbers(token, 1)[0])
        if name in _NESTED:
            return self._nested(name, depth + 1)
        names = [*PLAIN, *_DECIMAL, *_SIZED, *_NESTED]
        near = difflib.get_close_matches(name, names, 1)
        hint = f", did you mean {near[0]}?" if near else f": the types are {', '.join(names)}"
        raise DdlError(f"the type {token.text} is not read here{hint}")

    def _nested(self, name: str, depth: int) -> DataType:
        self._expect("<")
        made: DataType
        if name == "ARRAY":
            made = ArrayType(self.read_type(depth))
        elif name == "MAP":
            key = self.read_type(depth)
            self._expect(",")
            made = MapType(key, self.read_type(depth))
        else:
            made = StructType(self.read_fields(depth, end=">"))
        self._expect(">")
        return made

    def _decimal(self) -> DataType:
        if self.peek().text != "(":
            return DecimalType(10, 0)
        given = self._numbers(self.peek(), 2)
        precision, scale = given[0], given[1] if len(given) > 1 else 0
        if not 0 < precision <= 38 or not 0 <= scale <= precision:
            raise DdlError(f"DECIMAL({precision}, {scale}): the precision is 1 to 38, the scale 0 to the precision")
        return DecimalType(precision, scale)

    def _numbers(self, at: _Token, most: int) -> list[int]:
        self._expect("(")
        numbers: list[int] = []
        while True:
            token = self._take()
            if not token.text.isascii() or not token.text.isdigit() or len(numbers) == most:
                raise self._error(token, f"at most {most} numbers of {at.text}")
            numbers.append(int(token.text))
            if self.peek().text == ")":
                self._take()
                return numbers
            self._expect(",")

    def _take(self) -> _Token:
        token = self.peek()
        self._index += 1
        return token

    def _expect(self, sign: str) -> None:
        token = self._take()
        if token.text != sign:
            raise self._error(token, repr(sign))

    def expect_end(self) -> None:
        if self.peek().kind != "end":
            raise self._error(self.peek(), "a comma or the end")

    def _error(self, token: _Token, wanted: str) -> DdlError:
        found = repr(token.text) if token.text else "the end"
        return DdlError(f"the schema {self._text!r} has {found} at character {token.at + 1}, expected {wanted}")


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise DdlError(f"the schema {text!r} cannot be read from character {at + 1} on")
        kind = match.lastgroup
        found.append(_Token(kind, match.group(kind), match.start(kind)))
        at = match.end()
    return found
