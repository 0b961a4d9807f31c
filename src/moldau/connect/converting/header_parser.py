"""The schema and value that the text of a header stands for (Kafka Connect's Values.parseString)."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal

from moldau.connect.converting.converter import Converted, DataError
from moldau.connect.converting.java_numbers import as_float
from moldau.connect.converting.texts import header_text
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type

_STRING = Schema(Type.STRING)
_BOOLEAN = Schema(Type.BOOLEAN)
_WHOLE = tuple((Schema(Type(f"int{bits}")), 1 << (bits - 1)) for bits in (8, 16, 32, 64))
_WIDTH = {Type.INT8: 0, Type.INT16: 1, Type.INT32: 2, Type.INT64: 3, Type.FLOAT32: 4, Type.FLOAT64: 5}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?\Z", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)\.(\d{3})Z\Z", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)\Z", re.ASCII)
_SPACE = "".join(map(chr, range(33)))
_DELIMITERS = frozenset(':,{}[]"')
_MAX_DIGITS = 40
"""A whole number with more digits is not an int64; it stops the expansion of `1e999999999`."""
MAX_DEPTH = 100
"""Arrays and maps in each other; a text that is deeper is a string."""


def parse_header(text: str) -> Converted:
    """A null, boolean, number, date, time, timestamp, array or map; any other text is a string."""
    if not text:
        return _STRING, text
    parsed = _parse(_Tokens(text), 0)
    return (None, None) if parsed is None else parsed


class _Tokens:
    """The tokens of a text: delimiters one by one, and what is between them. A backslash hides a delimiter."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    @property
    def has_next(self) -> bool:
        return self.position < len(self.text)

    def next(self) -> str:
        start, escaped, text = self.position, False, self.text
        for index in range(start, len(text)):
            letter = text[index]
            if letter in _DELIMITERS and not escaped:
                self.position = max(index, start + 1)
                return text[start : self.position]
            escaped = letter == "\\" and not escaped
        self.position = len(text)
        return text[start:]

    def following(self, count: int) -> str | None:
        """The text of `count` tokens, None if there are fewer: then the position stays."""
        start = self.position
        for _ in range(count):
            if not self.has_next:
                self.position = start
                return None
            self.next()
        return self.text[start : self.position]

    def consume(self, expected: str) -> bool:
        """Goes behind the next token that is not blank if it is `expected` with blanks around it."""
        start = self.position
        token = ""
        while self.has_next and not token.strip(_SPACE):
            token = self.next()
        if token.strip(_SPACE) == expected:
            return True
        self.position = start
        return False


def _parse(tokens: _Tokens, depth: int) -> Converted | None:
    """None is a null. `depth` 0: the whole text. Raises DataError for what is no nested value."""
    if not tokens.has_next:
        return None
    if depth and tokens.consume('"'):
        return _quoted(tokens)
    start = tokens.position
    for literal, value in (("null", None), ("true", True), ("false", False)):
        if tokens.consume(literal):
            if depth or not tokens.has_next:
                return None if value is None else (_BOOLEAN, value)
            tokens.position = start
    try:
        if depth < MAX_DEPTH and tokens.consume("["):
            return _array(tokens, depth + 1)
        if depth < MAX_DEPTH and tokens.consume("{"):
            return _map(tokens, depth + 1)
    except DataError:
        tokens.position = start
    token = tokens.next().strip(_SPACE)
    if not token:
        return _STRING, tokens.text[start : tokens.position]
    parsed = _scalar(tokens, token)
    if parsed is None and depth:
        raise DataError("Failed to parse embedded value")
    return parsed or (_STRING, tokens.text)


def _quoted(tokens: _Tokens) -> Converted:
    content = ""
    while tokens.has_next and not tokens.consume('"'):
        content += tokens.next()
    return _temporal(content) or (_STRING, content)


def _scalar(tokens: _Tokens, token: str) -> Converted | None:
    if token[0].isdigit():
        after = tokens.position
        rest = tokens.following(4)  # a colon that is not escaped splits a time in five tokens
        temporal = _temporal(token + rest) if rest is not None else None
        if temporal is None:
            tokens.position = after
            temporal = _temporal(token)
        if temporal is not None:
            return temporal
    return _number(token) if token[0].isdigit() or token[0] in "+-" else None


def _number(token: str) -> Converted | None:
    if not _NUMBER.match(token):
        return None
    number = Decimal(token)
    exponent = int(number.as_tuple().exponent)
    if number.adjusted() < _MAX_DIGITS and (exponent >= 0 or number == number.to_integral_value()):
        whole = int(number)
        for schema, limit in _WHOLE:
            if -limit <= whole < limit:
                return schema, whole
    value = float(number)
    if exponent and not math.isinf(value):
        try:
            return Schema(Type.FLOAT32), as_float(value)
        except OverflowError:
            return Schema(Type.FLOAT64), value
    return Schema(Type.BYTES, name=DECIMAL, version=1, parameters={"scale": str(-exponent)}), number


def _temporal(token: str) -> Converted | None:
    token = token.replace("\\:", ":")
    day, _, rest = token.partition("T")
    try:
        if found := _TIME.match(token):
            return Schema(Type.INT32, name=TIME, version=1), _time(found)
        if (on := _DATE.match(day)) and (found := _TIME.match(rest)):
            moment = dt.datetime.combine(_date(on), _time(found), dt.UTC)
            return Schema(Type.INT64, name=TIMESTAMP, version=1), moment
        if on := _DATE.match(token):
            return Schema(Type.INT32, name=DATE, version=1), _date(on)
    except ValueError:
        pass
    return None


def _time(found: re.Match[str]) -> dt.time:
    hour, minute, second, millisecond = map(int, found.groups())
    return dt.time(hour, minute, second, millisecond * 1000)


def _date(found: re.Match[str]) -> dt.date:
    return dt.date(*map(int, found.groups()))


def _array(tokens: _Tokens, depth: int) -> Converted:
    values: list[object] = []
    common = _Common()
    while tokens.has_next:
        if tokens.consume("]"):
            return Schema(Type.ARRAY, values=common.schema), [common.aligned(one) for one in values]
        if tokens.consume(","):
            raise DataError("An element of the array is empty")
        element = _parse(tokens, depth)
        common.merge(element)
        values.append(None if element is None else element[1])
        before = tokens.position
        if tokens.consume("]"):
            tokens.position = before
        elif not tokens.consume(","):
            raise DataError("Array elements missing ',' delimiter")
    raise DataError("The array has no end")


def _map(tokens: _Tokens, depth: int) -> Converted:
    pairs: list[tuple[object, object]] = []
    keys, values = _Common(), _Common()
    while tokens.has_next:
        if tokens.consume("}"):
            if keys.schema is None:
                values = _Common()
            aligned = {keys.aligned(key): values.aligned(value) for key, value in pairs}
            return Schema(Type.MAP, keys=keys.schema, values=values.schema), aligned
        if tokens.consume(","):
            raise DataError("An entry of the map is empty")
        key = _parse(tokens, depth)
        if key is None or key[1] is None or isinstance(key[1], list | dict):
            raise DataError("Map entry may not have a null key")
        if not tokens.consume(":"):
            raise DataError("Map entry is missing ':'")
        value = _parse(tokens, depth)
        pairs.append((key[1], None if value is None else value[1]))
        tokens.consume(",")
        keys.merge(key)
        values.merge(value)
    raise DataError("The map has no end")


class _Common:
    """The schema that all elements fit. `schema` None: no element has one, or two types do not fit."""

    def __init__(self) -> None:
        self.schema: Schema | None = None
        self._fits = True

    def merge(self, latest: Converted | None) -> None:
        if latest is None or latest[0] is None or not self._fits:
            return
        before, schema = self.schema, latest[0]
        if before is None:
            self.schema = schema
        elif before.type in _WIDTH and schema.type in _WIDTH:
            self.schema = before if _WIDTH[before.type] >= _WIDTH[schema.type] else schema
        else:
            self._fits = before.type is schema.type
            self.schema = schema if self._fits else None

    def aligned(self, value: object) -> object:
        """Raises DataError if the value does not fit."""
        return value if self.schema is None else _aligned(self.schema, value)


def _aligned(schema: Schema, value: object) -> object:
    """Raises DataError if the value does not fit."""
    if value is None:
        raise DataError("Unable to convert a null value to a schema that requires a value")
    match schema.type:
        case Type.STRING:
            return header_text(None, value)
        case Type.FLOAT32 | Type.FLOAT64 if isinstance(value, int | float):
            return float(value)
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64 if schema.name is None and isinstance(value, int):
            return value
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64 if schema.name is None:
            raise DataError("The value is no number")
    return value
