"""Lines, JSON and CSV: the values of lines, and the text of values."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    Row,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

LINES, JSON, CSV = "lines", "json", "csv"
FORMATS: Final = (LINES, JSON, CSV)

Parse = Callable[[Any], Any]
_RANGES: Final[tuple[tuple[type[DataType], int], ...]] = (
    (ByteType, 7),
    (ShortType, 15),
    (IntegerType, 31),
    (LongType, 63),
)
_FLAGS: Final = {"true": True, "false": False}


class LineError(ValueError):
    """A line that has no row."""


def json_parser(schema: StructType) -> Callable[[str], tuple[Any, ...]]:
    """From a line with an object to a row. A missing name is a null, a name without a column is left out.

    Raises LineError.
    """
    decode = msgspec.json.Decoder(float_hook=Decimal).decode
    parts = [(one.name, _parser(one.dataType, _from_json), one.nullable) for one in schema.fields]

    def parse(line: str) -> tuple[Any, ...]:
        try:
            found = decode(line)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise LineError(f"no JSON: {error}") from None
        if not isinstance(found, dict):
            raise LineError("no JSON object")
        return tuple([_column(name, parser, nullable, found.get(name)) for name, parser, nullable in parts])

    return parse


def checked_json(line: str) -> str:
    """The line itself, if it is JSON. Raises LineError."""
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise LineError(f"no JSON: {error}") from None
    return line


def csv_parser(schema: StructType, delimiter: str, header: Sequence[str] | None) -> Callable[[str], tuple[Any, ...]]:
    """From a line to a row. `header`: the names of the columns of the file, None if it has those of `schema` in their
    order. An empty field is a null. Raises LineError, at once if a column is missing."""
    names = list(header) if header is not None else schema.names
    missing = [one for one in schema.names if one not in names]
    if missing:
        raise LineError(f"the header has no column {missing[0]}: {', '.join(names)}")
    parts = [
        (names.index(one.name), one.name, _parser(one.dataType, _from_text), one.nullable) for one in schema.fields
    ]

    def parse(line: str) -> tuple[Any, ...]:
        cells = csv_cells(line, delimiter)
        if len(cells) != len(names):
            raise LineError(f"{len(cells)} fields, expected {len(names)}")
        return tuple([_column(name, parser, nullable, cells[at] or None) for at, name, parser, nullable in parts])

    return parse


def csv_cells(line: str, delimiter: str) -> list[str]:
    """The fields of one line. Raises LineError."""
    try:
        return next(csv.reader((line,), delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise LineError(f"no CSV: {error}") from None


def check_columns(schema: StructType, form: str) -> None:
    """Raises ValueError for a type that the format does not have."""
    for one in schema.fields:
        _parser(one.dataType, _from_text if form == CSV else _from_json)


def _column(name: str, parser: Parse, nullable: bool, value: Any) -> Any:
    if value is None:
        if nullable:
            return None
        raise LineError(f"the column {name} is NOT NULL, and has no value")
    try:
        return parser(value)
    except (ValueError, TypeError, InvalidOperation, OverflowError):
        raise LineError(f"the column {name} has {str(value)[:100]!r}") from None


def _parser(kind: DataType, of_scalar: Callable[[DataType], Parse]) -> Parse:
    if of_scalar is _from_json:
        if isinstance(kind, ArrayType):
            element = _nullable(_parser(kind.elementType, of_scalar))
            return lambda value: [element(one) for one in _is(list, value)]
        if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
            inner = _nullable(_parser(kind.valueType, of_scalar))
            return lambda value: {key: inner(one) for key, one in _is(dict, value).items()}
        if isinstance(kind, StructType):
            parts = [(one.name, _nullable(_parser(one.dataType, of_scalar))) for one in kind.fields]
            return lambda value: tuple([parser(_is(dict, value).get(name)) for name, parser in parts])
    return of_scalar(kind)


def _nullable(parser: Parse) -> Parse:
    return lambda value: None if value is None else parser(value)


def _is(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{type(value).__name__} is no {kind.__name__}")
    return value


def _from_text(kind: DataType) -> Parse:
    """Raises ValueError for a type that a text does not have."""
    if isinstance(kind, BooleanType):
        return lambda text: _flag(text)
    for spark, bits in _RANGES:
        if isinstance(kind, spark):
            return _whole(bits, int)
    if isinstance(kind, FloatType | DoubleType):
        return float
    return _of_text(kind)


def _from_json(kind: DataType) -> Parse:
    if isinstance(kind, BooleanType):
        return lambda value: _is(bool, value)
    for spark, bits in _RANGES:
        if isinstance(kind, spark):
            return _whole(bits, lambda value: int(_is(int, value)))
    if isinstance(kind, FloatType | DoubleType):
        return lambda value: float(value if isinstance(value, Decimal) else _is(int, value))
    if isinstance(kind, DecimalType):
        exponent, precision = Decimal(1).scaleb(-kind.scale), kind.precision
        return lambda value: _decimal(value if isinstance(value, Decimal | int) else str(value), exponent, precision)
    return _of_text(kind)


def _of_text(kind: DataType) -> Parse:
    if isinstance(kind, StringType):
        return lambda text: _is(str, text)
    if isinstance(kind, DateType):
        return dt.date.fromisoformat
    if isinstance(kind, TimestampType):
        return _moment
    if isinstance(kind, DecimalType):
        exponent, precision = Decimal(1).scaleb(-kind.scale), kind.precision
        return lambda text: _decimal(text, exponent, precision)
    raise ValueError(f"columns of the type {kind.simpleString()} are not read from this format")


def _flag(text: str) -> bool:
    found = _FLAGS.get(text.strip().lower())
    if found is None:
        raise ValueError(text)
    return found


def _whole(bits: int, read: Parse) -> Parse:
    def parse(value: Any) -> int:
        number = int(read(value))
        if not -(1 << bits) <= number < 1 << bits:
            raise ValueError(value)
        return number

    return parse


def _decimal(value: Any, exponent: Decimal, precision: int) -> Decimal:
    """With the scale of the column. Raises ValueError if digits would be lost."""
    found = Decimal(value)
    made = found.quantize(exponent)
    if made != found or len(made.as_tuple().digits) > precision:
        raise ValueError(value)
    return made


def _moment(text: str) -> dt.datetime:
    """A time without a zone is UTC."""
    found = dt.datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


Write = Callable[[Iterable[Any]], bytes]
"""The text of values, with the end of the last line."""


def writer_of(form: str, value: DataType, delimiter: str = ",") -> Write:
    """`value`: the type of the values. CSV needs a struct. Raises ValueError."""
    if form == LINES:
        return _write_lines
    if form == JSON:
        return _write_json
    if not isinstance(value, StructType):
        raise ValueError("CSV needs values with columns: use a converter with schemas")
    return lambda values: _csv(([_cell(one) for one in row or ()] for row in values), delimiter)


def csv_header(value: StructType, delimiter: str = ",") -> bytes:
    return _csv([value.names], delimiter)


def _write_lines(values: Iterable[Any]) -> bytes:
    found = [one if type(one) is str else text_of(one) for one in values]
    return ("\n".join(found) + "\n").encode("utf-8", "surrogateescape") if found else b""


def text_of(value: Any) -> str:
    """A text as it is, bytes as they are, any other value as JSON; a null is `null`, as in Kafka's FileStreamSink."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "surrogateescape")
    return _encoded(value).decode()


def _write_json(values: Iterable[Any]) -> bytes:
    return b"".join([_encoded(one) + b"\n" for one in values])


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(_plain(value), enc_hook=str)
    except UnicodeEncodeError as error:
        raise LineError(f"a value cannot be written as JSON: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return {name: _plain(one) for name, one in zip(value.__fields__, value, strict=True)}
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _csv(rows: Iterable[Sequence[Any]], delimiter: str) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "surrogateescape")


def _cell(value: Any) -> Any:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case dt.date():
            return value.isoformat()
    return value if isinstance(value, int | float | Decimal) else text_of(value)
