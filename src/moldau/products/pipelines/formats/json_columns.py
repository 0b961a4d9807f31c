"""Decodes flat JSON objects to whole columns in Python, much cheaper than Spark's `from_json`.

`from_json` defines the meaning of a value. This module decodes a value only if it is unambiguous: strict JSON, with
each field of its column's type. Any other value (damaged, quoted differently, a number for a text column, a time in
words) is null here, and the query decodes it with `from_json`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Flags = npt.NDArray[np.bool_]

Fields = tuple[tuple[str, str], ...]
"""Names and Spark types of columns."""

TIMESTAMP = "timestamp"
_KINDS: Mapping[str, Any] = {
    "bigint": Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
    "int": Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)],
    "double": float,
    "boolean": bool,
    "string": str,
    TIMESTAMP: str,
}
"""The type that a JSON field must have, by the Spark type of its column."""

# One of the many forms that Spark reads, for times that exist. `from_json` reads 29 February. Zones end at 18 hours.
_DAY = "((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
_TIME = rf"^[0-9]{{4}}-{_DAY}[T ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{{1,6}})?"
_WITH_ZONE = rf"{_TIME}(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9])$"
_WITHOUT_ZONE = rf"{_TIME}$"

# Spark's parser rejects a depth of more than 1,000, a number of more digits, and a name of more than 50,000 characters.
_SHORT, _LONGEST = 1_000, 50_000
_MOST_BRACKETS = 900
_LONG_NUMBER = re.compile(rb"[0-9]{300}")


_NAME = re.compile(r'[^"\\\x00-\x1f]*')
"""Msgspec does not find a field whose name needs escapes in JSON."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_ .-]+")
_ESCAPED_ASCII = r"\\u00[2-7]"


def knows(fields: Fields) -> bool:
    """Whether this module can read the types of all columns."""
    names = {name for name, kind in fields if (_PLAIN_NAME if kind == TIMESTAMP else _NAME).fullmatch(name)}
    return 0 < len(names) == len(fields) and all(kind in _KINDS for _, kind in fields)


class JsonColumns:
    """Decodes JSON values to columns, in the tasks."""

    def __init__(self, fields: Fields, *, is_utc: bool, more: Sequence[str] = ()) -> None:
        """`fields`: must satisfy `knows`. `is_utc`: a time without a zone is UTC; otherwise `from_json` reads it.
        `more`: additional null columns of text, after the fields."""
        import pyarrow as pa

        types = {"bigint": pa.int64(), "int": pa.int32(), "double": pa.float64(), "boolean": pa.bool_()}
        types |= {"string": pa.string(), TIMESTAMP: pa.timestamp("us", tz="UTC")}
        found = [pa.field(name, types[kind]) for name, kind in fields]
        self.kind = pa.struct([*found, *(pa.field(name, pa.string()) for name in more)])
        self._fields = fields
        self._is_utc = is_utc

    def __call__(self, values: pa.Array) -> pa.Array:
        """`values`: binary. A row is null if `from_json` must decode its value."""
        import numpy as np
        import pyarrow as pa

        rows, unread = _rows_of(self._fields, values.to_pylist())
        is_read = np.ones(len(rows), bool)
        is_read[unread] = False
        columns = []
        for place, (name, spark_type) in enumerate(self._fields):
            found = list(map(attrgetter(_attribute(place)), rows))
            if spark_type == TIMESTAMP:
                column, is_time = self._times(pa.array(found, pa.string()))
                is_read &= is_time & ~_may_come_twice(values, name)
            else:
                column = pa.array(found, self.kind.field(place).type)
            columns.append(column)
        others = [pa.nulls(len(rows), field.type) for field in list(self.kind)[len(columns) :]]
        mask = None if is_read.all() else pa.array(~is_read)
        return pa.StructArray.from_arrays([*columns, *others], fields=list(self.kind), mask=mask)

    def _times(self, texts: pa.Array) -> tuple[pa.Array, Flags]:
        """The times, and a flag for each text that is a time or null."""
        import pyarrow as pa
        import pyarrow.compute as pc

        is_time = pc.match_substring_regex(texts, _WITH_ZONE)
        if self._is_utc and pc.all(is_time).as_py() is False:
            lacks_zone = pc.match_substring_regex(texts, _WITHOUT_ZONE)
            texts = pc.if_else(lacks_zone, pc.binary_join_element_wise(texts, "Z", ""), texts)
            is_time = pc.or_(is_time, lacks_zone)
        times = pc.if_else(is_time, texts, pa.scalar(None, pa.string())).cast(pa.timestamp("us", tz="UTC"))
        return times, is_time.fill_null(True).to_numpy(zero_copy_only=False)


def _attribute(place: int) -> str:
    return f"field{place}"


@lru_cache(64)
def _record_of(fields: Fields) -> type[msgspec.Struct]:
    """A record with an attribute for each field; an absent field is None."""
    return msgspec.defstruct(
        "Record",
        [
            (_attribute(place), _KINDS[kind] | None, msgspec.field(default=None, name=name))
            for place, (name, kind) in enumerate(fields)
        ],
        gc=False,
    )


def _rows_of(fields: Fields, values: Iterable[bytes | None]) -> tuple[list[msgspec.Struct], list[int]]:
    """A record for each value, and the places of values that are not strict JSON of these fields."""
    record = _record_of(fields)
    decode, nothing = msgspec.json.Decoder(record).decode, record()
    rows: list[msgspec.Struct] = []
    unread: list[int] = []
    for place, value in enumerate(values):
        if value is not None and (len(value) <= _SHORT or _is_within_bounds(value)):
            try:
                rows.append(decode(value))
                continue
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                pass
        rows.append(nothing)
        unread.append(place)
    return rows, unread


def _may_come_twice(values: pa.Array, name: str) -> Flags:
    """Whether a value may have the name twice. The last of two values counts, but Spark rejects the record if the first
    is not a time, and only the last is checked here. The name may be written with escapes."""
    import pyarrow.compute as pc

    may = pc.or_(
        pc.greater(pc.count_substring(values, f'"{name}"'), 1), pc.match_substring_regex(values, _ESCAPED_ASCII)
    )
    flags: Flags = may.fill_null(True).to_numpy(zero_copy_only=False)
    return flags


def _is_within_bounds(value: bytes) -> bool:
    """Whether Spark's parser certainly accepts the value's size and depth."""
    if len(value) > _LONGEST or value.count(b"{") + value.count(b"[") > _MOST_BRACKETS:
        return False
    return _LONG_NUMBER.search(value) is None
