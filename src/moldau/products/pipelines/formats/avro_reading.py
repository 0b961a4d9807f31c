"""Decodes Avro records one by one, by the schema resolution of Apache Avro for Java.

`fastavro` decodes the bytes with a modified writer's schema: it has numbers in place of logical types and enums, and a
record of one field (which takes no bytes) around each branch of a union. This module converts the result to the
reader's columns, because the resolution in `fastavro` uses the writer's logical types. (Avro specification, "Schema
Resolution".)
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any

from moldau.products.pipelines.formats.avro_defaults import default_of
from moldau.products.pipelines.formats.avro_levels import MOST_LEVELS, check_levels
from moldau.products.pipelines.formats.avro_schema import NO_DEFAULT, AvroField, AvroType, Json, said

Change = Callable[[Any], Any]
"""Raises ValueError for a value that does not fit the reader's column."""
Plan = tuple[Json, Change | None]
"""The form to decode a type, and the change to apply to the value; None: no change."""

WIDER = {
    "int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",), "string": ("bytes",),
    "bytes": ("string",),
}  # fmt: skip
DAY_MS = 86_400_000
DAYS = (-719_162, 2_932_896)
"""The first day of the year 1 and the last day of 9999, counted from 1970: the range of dates and times in SQL and
Python."""
UNIT_MICROS = {"millis": 1_000, "micros": 1}
UUID = "-".join(f"[0-9a-fA-F]{{{count}}}" for count in (8, 4, 4, 4, 12))
"""A regular expression."""
_UUID = re.compile(UUID)
_EXACT = Context(prec=1_000_000)
_FLOAT_DIGITS = 53


def record_reader(written: AvroType, read: AvroType) -> Callable[[bytes], Mapping[str, Any]]:
    """Reads a value of the writer's schema as a row of the reader's record. The reader's record must have columns."""
    import fastavro

    resolution = _Resolution(read)
    form, change = resolution.plan(written, read)
    schema = fastavro.parse_schema({"type": "record", "name": "Value", "fields": [{"name": "value", "type": form}]})

    def reader(value: bytes) -> Mapping[str, Any]:
        if resolution.holds_itself and len(value) > MOST_LEVELS:
            check_levels(form, value)
        stream = io.BytesIO(value)
        try:
            found: Any = fastavro.schemaless_reader(stream, schema, None)
        except EOFError:
            raise ValueError("the value ends within a field") from None  # fastavro's message names its stream instead
        except IndexError:
            raise ValueError("the value names a branch of a union that its schema does not have") from None
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes are after the last field")
        row: Mapping[str, Any] = found["value"] if change is None else change(found["value"])
        return row

    return reader


def is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


class _Resolution:
    """`read`: the reader's schema, whose aliases rename the writer's types and fields. `holds_itself`: whether the
    planned form may contain itself, so that a value can have any number of levels."""

    def __init__(self, read: AvroType) -> None:
        self._made = 0
        self._skipped: dict[str, str] = {}
        self._has_nothing = False
        self.holds_itself = False
        self._names: dict[str, str] = {}
        self._field_names: dict[str, dict[str, str]] = {}
        self._add_aliases(read)

    def plan(self, written: AvroType, read: AvroType) -> Plan:
        if written.kind == "union":
            return self._union(written, read)
        if read.kind == "union":
            branch = self._branch(written, read)
            return self._mismatch(written, read) if branch is None else self.plan(written, branch)
        form, change = self._without_logical(written, read)
        return form, _both(change, logical_change(read))

    def _without_logical(self, written: AvroType, read: AvroType) -> Plan:
        if self._is_error(written, read) and written.kind != "record":
            return self._mismatch(written, read)
        if written.kind == read.kind == "record":
            return self._record(written, read)
        if written.kind == read.kind == "enum":
            return "int", _enum(written, read)
        if written.kind == read.kind == "fixed":
            return self._skip(written), None
        if written.kind == read.kind and written.items is not None:
            form, change = self.plan(written.inner, read.inner)
            if written.kind == "array":
                return {"type": "array", "items": form}, None if change is None else _each(change)
            return {"type": "map", "values": form}, None if change is None else _each_value(change)
        if read.kind in ("float", "double") and written.kind in ("int", "long"):
            return written.kind, float if read.kind == "double" else nearest_float
        if {written.kind, read.kind} == {"string", "bytes"}:
            return read.kind, None
        if written.kind == read.kind or read.kind in WIDER.get(written.kind, ()):
            return written.kind, None
        return self._mismatch(written, read)

    def _record(self, written: AvroType, read: AvroType) -> Plan:
        theirs = self._names_of_fields(written)
        fields, changes = [], []
        places = {one.name: one for one in read.fields}
        for one in written.fields:
            own = places.get(theirs[one.name])
            form, change = (self._skip(one.type), None) if own is None else self.plan(one.type, own.type)
            fields.append({"name": one.name, "type": form})
            if own is not None:
                changes.append((one.name, own.name, change))
        absent = [one for one in read.fields if one.name not in theirs.values()]
        defaults: dict[str, Any] = {}
        try:
            defaults = {one.name: self._default(one) for one in absent}
        except ValueError as error:
            return self._named({"type": "record", "fields": fields}), _refusal(str(error))
        is_same = not defaults and all(one == own and change is None for one, own, change in changes)
        is_whole = len(changes) == len(written.fields)
        return self._named({"type": "record", "fields": fields}), None if is_same and is_whole else _row(
            changes, defaults
        )

    @staticmethod
    def _default(field: AvroField) -> Any:
        if field.default is NO_DEFAULT:
            raise ValueError(f"the writer's schema has no {field.name}, and the reader's has no default for it")
        _, change = _Resolution(field.type).plan(field.type, field.type)
        value = default_of(field, lambda _, __, one: one)
        return value if change is None else change(value)

    def _union(self, written: AvroType, read: AvroType) -> Plan:
        """Appends one undecodable branch for each branch, because `fastavro` counts a negative place from the end."""
        plans = [self.plan(one, read) for one in written.branches]
        forms = [form for form, _ in plans]
        if written.without_null() is None:
            forms = [
                form
                if form == "null"
                else self._named({"type": "record", "fields": [{"name": str(place), "type": form}]})
                for place, form in enumerate(forms)
            ]
            of_null = next((one for form, one in plans if form == "null"), None)
            change: Change | None = _of_branch(of_null, [one for _, one in plans])
        else:
            of_null = next((one for form, one in plans if form == "null"), None)
            of_other = next((one for form, one in plans if form != "null"), None)
            change = None if of_null is None and of_other is None else _null_or(of_null, of_other)
        return [*forms, *(self._nothing() for _ in forms)], change

    def _branch(self, written: AvroType, read: AvroType) -> AvroType | None:
        """The branch of the reader's union: the first of the same type, otherwise the first that the value can be
        converted to."""
        same = [one for one in read.branches if one.kind == written.kind]
        if written.kind in ("record", "enum", "fixed"):
            name = self._name(written)
            exact = next((one for one in same if one.name == name), None)
            if exact is not None or written.kind != "record":
                return exact
            alike = [one for one in same if not self._is_error(written, one) and not self._has_bad_field(written, one)]
            short = [one for one in alike if _short(one.name) == _short(name)]
            return next(iter(short or alike), None)
        wider = [one for one in read.branches if one.kind in WIDER.get(written.kind, ())]
        return next(iter(same or wider), None)

    def _is_error(self, written: AvroType, read: AvroType) -> bool:
        """Whether no value can be read at all. Nested types are checked for each value."""
        if written.kind == "union":
            return False
        if read.kind == "union":
            return self._branch(written, read) is None
        if written.kind != read.kind:
            return read.kind not in WIDER.get(written.kind, ())
        if written.kind in ("enum", "fixed"):
            return self._name(written) != read.name or written.size != read.size
        theirs = self._names_of_fields(written).values() if written.kind == "record" else ()
        return any(one.default is NO_DEFAULT and one.name not in theirs for one in read.fields)

    def _has_bad_field(self, written: AvroType, read: AvroType) -> bool:
        theirs, own = self._names_of_fields(written), {one.name: one for one in read.fields}
        pairs = [(one.type, own[theirs[one.name]].type) for one in written.fields if theirs[one.name] in own]
        return any(self._is_error(*pair) for pair in pairs)

    def _mismatch(self, written: AvroType, read: AvroType) -> Plan:
        return self._skip(written), _refusal(f"{said(written)} cannot be read as {said(read)}")

    # -- forms

    def _skip(self, written: AvroType) -> Json:
        """The form of a value that is skipped."""
        if written.kind in ("string", "enum"):
            return {"string": "bytes", "enum": "int"}[written.kind]
        if written.kind == "array":
            return {"type": "array", "items": self._skip(written.inner)}
        if written.kind == "map":
            return {"type": "map", "values": self._skip(written.inner)}
        if written.kind == "union":
            return [*map(self._skip, written.branches), *(self._nothing() for _ in written.branches)]
        if written.kind == "fixed":
            return self._named({"type": "fixed", "size": written.size})
        if written.kind != "record":
            return written.kind
        if written.name in self._skipped:
            self.holds_itself = True  # or occurs there twice, which does no harm
            return self._skipped[written.name]
        form = self._named({"type": "record"})
        self._skipped[written.name] = form["name"]
        form["fields"] = [{"name": one.name, "type": self._skip(one.type)} for one in written.fields]
        return form

    def _named(self, form: dict[str, Json]) -> dict[str, Json]:
        self._made += 1
        return {**form, "name": f"T{self._made}"}

    def _nothing(self) -> Json:
        """An enum without symbols, which cannot be decoded."""
        if self._has_nothing:
            return "Nothing"
        self._has_nothing = True
        return {"type": "enum", "name": "Nothing", "symbols": []}

    # -- names

    def _add_aliases(self, read: AvroType) -> None:
        """Terminates, because a reader with columns does not contain itself."""
        for alias in read.aliases:
            self._names.setdefault(alias, read.name)
        for one in read.fields:
            for alias in one.aliases:
                self._field_names.setdefault(read.name, {})[alias] = one.name
            self._add_aliases(one.type)
        for inner in (*read.branches, *([read.items] if read.items is not None else [])):
            self._add_aliases(inner)

    def _name(self, written: AvroType) -> str:
        return self._names.get(written.name, written.name)

    def _names_of_fields(self, written: AvroType) -> dict[str, str]:
        """The reader's names of the fields. A field with the reader's name wins over one with an alias."""
        aliases = self._field_names.get(self._name(written), {})
        own = {one.name for one in written.fields}
        return {
            one.name: alias if (alias := aliases.get(one.name, one.name)) not in own else one.name
            for one in written.fields
        }


# --- changes ---


def _both(first: Change | None, second: Change | None) -> Change | None:
    if first is None or second is None:
        return first or second
    return lambda value: second(first(value))


def _refusal(reason: str) -> Change:
    def change(_: Any) -> Any:
        raise ValueError(reason)

    return change


def _each(change: Change) -> Change:
    return lambda values: [change(value) for value in values]


def _each_value(change: Change) -> Change:
    return lambda values: {key: change(value) for key, value in values.items()}


def _null_or(of_null: Change | None, of_other: Change | None) -> Change:
    def change(value: Any) -> Any:
        act = of_null if value is None else of_other
        return value if act is None else act(value)

    return change


def _of_branch(of_null: Change | None, changes: list[Change | None]) -> Change:
    by_name = {str(place): change for place, change in enumerate(changes)}

    def change(value: Any) -> Any:
        if value is None:
            return None if of_null is None else of_null(None)
        ((place, inner),) = value.items()
        act = by_name[place]
        return inner if act is None else act(inner)

    return change


def _row(changes: list[tuple[str, str, Change | None]], defaults: dict[str, Any]) -> Change:
    def change(value: Any) -> Any:
        found = dict(defaults)
        for theirs, own, act in changes:
            try:
                found[own] = value[theirs] if act is None else act(value[theirs])
            except ValueError as error:
                raise ValueError(f"{own}: {error}") from None
        return found

    return change


def _enum(written: AvroType, read: AvroType) -> Change:
    known = [symbol if symbol in read.symbols else read.default for symbol in written.symbols]

    def change(place: int) -> str:
        if not 0 <= place < len(known):
            raise ValueError(f"{written.name} has no symbol {place}")
        symbol = known[place]
        if symbol is None:
            raise ValueError(f"the reader's {read.name} has no symbol {written.symbols[place]}, and no default")
        return symbol

    return change


def nearest_float(number: int) -> float:
    """The double that converts to the nearest `float`. Its last bit marks lost bits, so the number is rounded only
    once."""
    lost = abs(number).bit_length() - _FLOAT_DIGITS
    if lost <= 0:
        return float(number)
    kept = (abs(number) >> lost) | bool(abs(number) & ((1 << lost) - 1))
    return float((kept << lost) * (1 if number > 0 else -1))


def logical_change(kind: AvroType) -> Change | None:
    """Converts an encoded value to the value of its column."""
    if kind.logical is None:
        return None
    if kind.logical == "decimal":
        return _decimal(kind)
    if kind.logical == "uuid":
        return _uuid
    return _time(kind.logical)


def range_of(logical: str) -> tuple[int, int, int]:
    """The least and greatest number of a logical time type that fit the column, and the number of column units per
    unit."""
    first, last = DAYS
    if logical == "date":
        return first, last, 1
    unit = UNIT_MICROS[logical.rpartition("-")[2]]
    a_day = DAY_MS * 1_000 // unit
    if logical.startswith("time-"):
        return 0, a_day - 1, unit
    return first * a_day, (last + 1) * a_day - 1, unit


def _time(logical: str) -> Change:
    first, last, unit = range_of(logical)

    def change(number: int) -> int:
        if not first <= number <= last:
            where = "of the day" if logical.startswith("time-") else "of the years 1 to 9999"
            raise ValueError(f"the {logical} {number} is outside {where}")
        return number * unit

    return change


def _decimal(kind: AvroType) -> Change:
    most = 10**kind.precision

    def change(value: bytes) -> Decimal:
        number = int.from_bytes(value, "big", signed=True)
        if not value or abs(number) >= most:
            raise ValueError(f"the bytes {value[:40].hex()!r} are no decimal of {kind.precision} digits")
        return Decimal(number).scaleb(-kind.scale, _EXACT)

    return change


def _uuid(text: str) -> str:
    if not is_uuid(text):
        raise ValueError(f"{text[:100]!r} is no uuid")
    return text


def _short(name: str) -> str:
    return name.rpartition(".")[2]
