"""Encodes rows as Avro.

Checks each value first, because `fastavro` cuts fractions, accepts texts for booleans and turns large numbers into
infinities.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal
from typing import Any

from moldau.products.pipelines.formats.avro_defaults import INTEGERS, default_of
from moldau.products.pipelines.formats.avro_reading import UNIT_MICROS, is_uuid
from moldau.products.pipelines.formats.avro_schema import NO_DEFAULT, TIMES, AvroField, AvroType, Json

Change = Callable[[Any], Any]
"""Raises ValueError for a value that does not fit the type."""

INTEGER_TIMES = ("date", "time-millis", "time-micros", *TIMES)
"""Logical types that are numbers."""
_FIRST_DAY = date(1970, 1, 1).toordinal()
_EXACT = Context(prec=1_000_000)


class RecordWriting:
    """Writes rows of a record."""

    def __init__(self, record: AvroType) -> None:
        import fastavro

        self.record = record
        self._names: dict[str, str] = {}
        self._branches: dict[int, list[str]] = {}
        self._changes: dict[str, Change] = {}
        self._made = 0
        self._schema = fastavro.parse_schema(self._form(record))
        self._fields = {one.name: (one, self._change(one.type)) for one in record.fields}

    def default(self, field: AvroField) -> Any:
        """The encoded default; null if the field is nullable and has no default. Raises ValueError."""
        null = next((place for place, one in enumerate(field.type.branches) if one.kind == "null"), None)
        if field.default is NO_DEFAULT and null is not None:
            return self._in_branch(field.type, null, None)
        return default_of(field, lambda kind, place, value: self._in_branch(kind, place, value))

    def encoder(self, are_fitting: frozenset[str] = frozenset()) -> Callable[[Mapping[str, Any]], bytes]:
        """`are_fitting`: fields whose values need no checks: each is valid for its type, or null in its union with
        null."""
        import fastavro

        changes = [
            (name, self._bare(one.type) if name in are_fitting else change, _given_or(one, self.default))
            for name, (one, change) in self._fields.items()
        ]
        known, schema = frozenset(self._fields), self._schema

        def encode(row: Mapping[str, Any]) -> bytes:
            if row.keys() - known:
                raise ValueError(f"the schema has no {', '.join(sorted(row.keys() - known))}")
            found = {}
            for name, change, default in changes:
                if name not in row:
                    found[name] = default()
                    continue
                try:
                    found[name] = row[name] if change is None else change(row[name])
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None
            out = io.BytesIO()
            fastavro.schemaless_writer(out, schema, found)
            return out.getvalue()

        return encode

    # -- forms: a record of one field, which takes no bytes, wraps each branch of a union to give it a name

    def _form(self, kind: AvroType) -> Json:
        if kind.kind == "union":
            return self._union_form(kind)
        if kind.kind in ("array", "map"):
            return {"type": kind.kind, "items" if kind.kind == "array" else "values": self._form(kind.inner)}
        if kind.kind == "enum":
            return "int"
        if kind.kind == "fixed":
            return {"type": "fixed", "name": self._new_name(), "size": kind.size}
        if kind.kind != "record":
            return kind.kind
        if kind.name in self._names:
            return self._names[kind.name]
        name = self._names[kind.name] = self._new_name()
        fields = [{"name": one.name, "type": self._form(one.type)} for one in kind.fields]
        return {"type": "record", "name": name, "fields": fields}

    def _union_form(self, kind: AvroType) -> Json:
        names = self._branches[id(kind)] = ["null" if one.kind == "null" else self._new_name() for one in kind.branches]
        return [
            "null"
            if one.kind == "null"
            else {"type": "record", "name": name, "fields": [{"name": "value", "type": self._form(one)}]}
            for name, one in zip(names, kind.branches, strict=True)
        ]

    def _new_name(self) -> str:
        self._made += 1
        return f"T{self._made}"

    def _in_branch(self, kind: AvroType, place: int, value: Any) -> Any:
        name = self._branches[id(kind)][place]
        return (name, None) if name == "null" else (name, {"value": value})

    # -- changes

    def _change(self, kind: AvroType) -> Change:
        if kind.kind == "union":
            return self._union(kind)
        if kind.kind == "record":
            return self._of_record(kind)
        if kind.kind == "array":
            return _array(self._change(kind.inner))
        if kind.kind == "map":
            return _map(self._change(kind.inner))
        if kind.logical is not None:
            return _logical(kind)
        return _PLAIN[kind.kind](kind)

    def _union(self, kind: AvroType) -> Change:
        """The first type that accepts the value. A double comes before a float, which would lose digits."""
        places = sorted(range(len(kind.branches)), key=lambda place: kind.branches[place].kind == "float")
        branches = [(place, self._change(one)) for place, one in enumerate(kind.branches)]
        null = next((place for place, one in enumerate(kind.branches) if one.kind == "null"), None)
        others = [branches[place] for place in places if place != null]

        def change(value: Any) -> Any:
            if value is None and null is not None:
                return self._in_branch(kind, null, None)
            reasons = []
            for place, act in others:
                try:
                    return self._in_branch(kind, place, act(value))
                except ValueError as error:
                    reasons.append(str(error))
            raise ValueError("; ".join(reasons))

        return change

    def _bare(self, kind: AvroType) -> Change | None:
        """For values that are not checked."""
        if kind.kind != "union":
            return None
        names = self._branches[id(kind)]
        other, null = next(one for one in names if one != "null"), ("null", None)
        return lambda value: null if value is None else (other, {"value": value})

    def _of_record(self, record: AvroType) -> Change:
        """A record may contain itself, so its change is looked up when it is needed."""
        if record.name not in self._changes:
            self._changes[record.name] = lambda value: changed(value)
            fields = [(one, self._change(one.type), _given_or(one, self.default)) for one in record.fields]
            changed = _nested(record.name, fields)
        return self._changes[record.name]


def _given_or(field: AvroField, default: Callable[[AvroField], Any]) -> Callable[[], Any]:
    """Returns the default, which is built once. Raises ValueError, also for a default that does not fit its type."""
    try:
        value = default(field)
    except ValueError as error:
        return _refuse(str(error))
    return lambda: value


def _refuse(reason: str) -> Callable[[], Any]:
    def act() -> Any:
        raise ValueError(reason)

    return act


def _nested(name: str, fields: list[tuple[AvroField, Change, Callable[[], Any]]]) -> Change:
    def change(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _is_no(value, name)
        found = {}
        for one, act, default in fields:
            try:
                found[one.name] = act(value[one.name]) if one.name in value else default()
            except ValueError as error:
                raise ValueError(f"{one.name}: {error}") from None
        return found

    return change


def _array(change: Change) -> Change:
    def act(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise _is_no(value, "array")
        return [change(one) for one in value]

    return act


def _map(change: Change) -> Change:
    def act(value: Any) -> Any:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise _is_no(value, "map")
        return {key: change(one) for key, one in value.items()}

    return act


def _is_no(value: object, name: str) -> ValueError:
    return ValueError(f"{repr(value)[:100]} is no {name}")


# --- columns ---

_NUMBERS = ("int", "long", "float", "double")
_TAKEN_FROM: dict[str, tuple[str, ...]] = {
    "boolean": ("boolean",),
    **dict.fromkeys(("byte", "short", "integer", "long"), (*_NUMBERS, *INTEGER_TIMES)),
    **dict.fromkeys(("float", "double"), ("float", "double")),
    **dict.fromkeys(("string", "varchar", "char"), ("string", "enum", "uuid")),
    "binary": ("bytes", "fixed"),
    "decimal": ("decimal",),
    "date": ("date",),
    "time": ("time-millis", "time-micros"),
    "timestamp": ("timestamp-millis", "timestamp-micros"),
    "timestamp_ntz": ("local-timestamp-millis", "local-timestamp-micros"),
}
"""The types that accept values of a Spark column, by the name of its type."""


def can_take(kind: AvroType, column: Any) -> bool:
    """Whether any value of a column can fit the Avro type. `column`: a Spark type. Nested types are checked only for a
    column of a nested type; a column of an unknown type may fit."""
    name = column.typeName()
    if kind.kind == "union":
        return name == "void" or any(can_take(one, column) for one in kind.branches)
    if name == "array":
        return kind.kind == "array" and can_take(kind.inner, column.elementType)
    if name == "map":
        return kind.kind == "map" and column.keyType.typeName() == "string" and can_take(kind.inner, column.valueType)
    if name == "struct":
        given = {one.name: one.dataType for one in column.fields}
        return kind.kind == "record" and all(
            can_take(one.type, given[one.name]) for one in kind.fields if one.name in given
        )
    if name == "void":
        return kind.kind == "null"
    return name not in _TAKEN_FROM or (kind.logical or kind.kind) in _TAKEN_FROM[name]


# --- primitive types ---


def _of(kind: type | tuple[type, ...], name: str) -> Callable[[AvroType], Change]:
    def change(value: Any) -> Any:
        if not isinstance(value, kind):
            raise _is_no(value, name)
        return value

    return lambda _: change


def _integer(kind: AvroType) -> Change:
    most = 1 << INTEGERS[kind.kind]

    def change(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not -most <= value < most:
            raise _is_no(value, kind.kind)
        return value

    return change


def _real(kind: AvroType) -> Change:
    form = "<f" if kind.kind == "float" else "<d"

    def change(value: Any) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise _is_no(value, kind.kind)
        try:
            number = float(value)
            struct.pack(form, number)
        except OverflowError:
            raise _is_no(value, kind.kind) from None
        return number

    return change


def _fixed(kind: AvroType) -> Change:
    def change(value: Any) -> bytes:
        if not isinstance(value, bytes) or len(value) != kind.size:
            raise _is_no(value, f"{kind.name} of {kind.size} bytes")
        return value

    return change


def _enum(kind: AvroType) -> Change:
    places = {symbol: place for place, symbol in enumerate(kind.symbols)}

    def change(value: Any) -> int:
        if not isinstance(value, str) or value not in places:
            raise _is_no(value, f"{kind.name}: it has {', '.join(places)}"[:200])
        return places[value]

    return change


_PLAIN: dict[str, Callable[[AvroType], Change]] = {
    "null": _of(type(None), "null"), "boolean": _of(bool, "boolean"), "int": _integer, "long": _integer,
    "float": _real, "double": _real, "bytes": _of((bytes, bytearray), "bytes"), "string": _of(str, "string"),
    "fixed": _fixed, "enum": _enum,
}  # fmt: skip


# --- logical types ---


def _logical(kind: AvroType) -> Change:
    if kind.logical == "decimal":
        return _decimal(kind)
    if kind.logical == "uuid":
        return _uuid
    return _number_or(_TIMES[str(kind.logical)], _integer(kind), str(kind.logical))


def _number_or(act: Callable[[Any], int | None], integer: Change, logical: str) -> Change:
    """A number is used unchanged. A finer time is cut."""

    def change(value: Any) -> int:
        if isinstance(value, int):
            return int(integer(value))
        found = act(value)
        if found is None:
            raise _is_no(value, logical)
        return found

    return change


def _day(value: Any) -> int | None:
    is_day = isinstance(value, date) and not isinstance(value, datetime)
    return value.toordinal() - _FIRST_DAY if is_day else None


def _time_of_day(unit: int) -> Callable[[Any], int | None]:
    def act(value: Any) -> int | None:
        if not isinstance(value, time):
            return None
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return int(seconds * 1_000_000 + value.microsecond) // unit

    return act


def _moment(unit: int, *, has_zone: bool) -> Callable[[Any], int | None]:
    epoch = datetime(1970, 1, 1, tzinfo=UTC if has_zone else None)

    def act(value: Any) -> int | None:
        if not isinstance(value, datetime):
            return None
        if (value.tzinfo is not None) != has_zone:
            wanted = "a timestamp" if has_zone else "a timestamp_ntz"
            raise ValueError(f"{value} is no local time: cast it to {wanted}")
        passed = value - epoch
        return ((passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds) // unit

    return act


_TIMES: dict[str, Callable[[Any], int | None]] = {
    "date": _day,
    **{f"time-{unit}": _time_of_day(micros) for unit, micros in UNIT_MICROS.items()},
    **{f"timestamp-{unit}": _moment(micros, has_zone=True) for unit, micros in UNIT_MICROS.items()},
    **{f"local-timestamp-{unit}": _moment(micros, has_zone=False) for unit, micros in UNIT_MICROS.items()},
}


def _decimal(kind: AvroType) -> Change:
    most = 10**kind.precision

    def change(value: Any) -> bytes:
        if not isinstance(value, Decimal) or not value.is_finite():
            raise _is_no(value, f"decimal({kind.precision}, {kind.scale})")
        scaled = value.scaleb(kind.scale, _EXACT)
        number = int(scaled)
        if number != scaled or abs(number) >= most:
            raise _is_no(value, f"decimal({kind.precision}, {kind.scale})")
        size = kind.size or number.bit_length() // 8 + 1
        return number.to_bytes(size, "big", signed=True)

    return change


def _uuid(value: Any) -> str:
    if not isinstance(value, str) or not is_uuid(value):
        raise _is_no(value, "uuid")
    return value
