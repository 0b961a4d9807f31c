"""JSON that is read as whole columns: the rows that were written, and none if Spark's parser might read it
differently."""

from __future__ import annotations

import datetime
import json
import math
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.products.pipelines.formats.json_columns import JsonColumns, knows

FIELDS = (
    ("id", "bigint"),
    ("count", "int"),
    ("amount", "double"),
    ("is_new", "boolean"),
    ("user name", "string"),
    ("at", "timestamp"),
)
MOMENTS = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30), timezones=st.just(datetime.UTC))
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        "count": st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
        "amount": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "is_new": st.none() | st.booleans(),
        "user name": st.none() | st.text(),
        "at": st.none() | MOMENTS.filter(lambda at: (at.month, at.day) != (2, 29)),
        "more": st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.lists(inner, max_size=3)),
    },
)


def read(*values: bytes | None, fields: Any = FIELDS, is_utc: bool = True) -> list[dict[str, Any] | None]:
    rows: list[dict[str, Any] | None] = JsonColumns(fields, is_utc=is_utc)(pa.array(values, pa.binary())).to_pylist()
    return rows


@given(st.lists(ROWS, min_size=1, max_size=10), st.booleans())
def test_rows_are_those_that_were_written(rows, is_ascii):
    def text_of(value):
        return value.isoformat(sep=" ") if isinstance(value, datetime.datetime) else value

    values = [
        json.dumps({name: text_of(value) for name, value in row.items()}, ensure_ascii=is_ascii).encode("utf-8")
        for row in rows
    ]
    found = read(*values)
    # an escaped name of ASCII letters could be that of a time
    left = [re.search(rb"\\u00[2-7]", value) for value in values]
    assert found == [
        None if is_left else {name: row.get(name) for name, _ in FIELDS}
        for row, is_left in zip(rows, left, strict=True)
    ]


def test_the_sign_of_zero_stays():
    (row,) = read(b'{"amount": -0.0}')
    assert row is not None
    assert math.copysign(1, row["amount"]) == -1


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"null",
        b"[]",
        b'{"id": 1',
        b'{"id": 1} {"id": 2}',
        b"{'id': 1}",
        b'{"id": 1.0}',
        b'{"id": "1"}',
        b'{"id": 9223372036854775808}',
        b'{"count": 2147483648}',
        b'{"amount": "1.5"}',
        b'{"amount": NaN}',
        b'{"amount": 1e999}',
        b'{"is_new": 1}',
        b'{"user name": 1}',
        b'{"user name": "\xff"}',
        b'{"user name": "\\ud800"}',
        b'{"at": 1764000000}',
        b'{"at": "2026-11-24"}',
        b'{"at": "2026-02-30T10:00:00Z"}',
        b'{"at": "2028-02-29T10:00:00Z"}',
        b'{"at": "2026-11-24T10:00:00+18:00"}',
        b'{"at": "no time", "at": "2026-11-24T10:00:00Z"}',
        b'{"\\u0061t": "no time", "at": "2026-11-24T10:00:00Z"}',
        b'{"more": ' + b"[" * 950 + b"]" * 950 + b"}",
        b'{"more": 0.' + b"1" * 1_000 + b"}",
        b'{"' + b"x" * 50_001 + b'": 1}',
    ],
)
def test_what_is_not_plain_is_left_and_its_neighbours_are_read(value):
    assert [row and row["id"] for row in read(b'{"id": 1}', value, b'{"id": 3}')] == [1, None, 3]


def test_a_time_without_a_zone_is_read_where_it_is_one_of_utc():
    value = b'{"at": "2026-11-24 10:00:00.5"}'
    (row,) = read(value)
    assert row is not None
    assert row["at"] == datetime.datetime(2026, 11, 24, 10, 0, 0, 500_000, datetime.UTC)
    assert read(value, is_utc=False) == [None]


def test_columns_behind_the_fields_are_null():
    columns = JsonColumns((("id", "bigint"),), is_utc=True, more=("damage",))
    assert columns(pa.array([b'{"id": 1, "damage": "none"}'])).to_pylist() == [{"id": 1, "damage": None}]


@pytest.mark.parametrize(
    "fields",
    [
        (),
        (("id", "bigint"), ("prices", "array<double>")),
        (("amount", "decimal(10,2)"),),
        (("id", "bigint"), ("id", "string")),
        (("zeit_für", "timestamp"),),
        (('say "x"', "bigint"),),
        (("back\\slash", "string"),),
        (("line\nin", "string"),),
    ],
)
def test_other_columns_are_not_known(fields):
    assert knows(FIELDS)
    assert not knows(fields)
