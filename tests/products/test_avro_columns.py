"""Avro values decoded as whole columns are the same rows as values decoded one by one, for any values."""

from __future__ import annotations

import datetime
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.formats.avro import AvroValues
from moldau.products.pipelines.formats.registry import RegisteredSchema

MOMENTS = st.datetimes(datetime.datetime(1800, 1, 1), datetime.datetime(2200, 1, 1), timezones=st.just(datetime.UTC))
TYPES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(1 << 31), (1 << 31) - 1)),
    ("long", st.integers(-(1 << 63), (1 << 63) - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("string", st.text(max_size=200)),
    ("bytes", st.binary(max_size=200)),
    ({"type": "int", "logicalType": "date"}, st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))),
    ({"type": "long", "logicalType": "timestamp-millis"}, MOMENTS.map(lambda at: at.replace(microsecond=0))),
    ({"type": "long", "logicalType": "timestamp-micros"}, MOMENTS),
]


class OneByOne(AvroValues):
    """Columns are compared with this."""

    def at_once(self, values: pa.Array) -> pa.Array | None:
        return None


@st.composite
def batches(draw: st.DrawFn) -> tuple[str, list[bytes | None]]:
    """A schema and values that were written with it, some of them missing."""
    fields, strategies = [], {}
    for place, (kind, values) in enumerate(draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=5))):
        form = draw(st.sampled_from(("plain", "null first", "null last")))
        union = {"plain": kind, "null first": ["null", kind], "null last": [kind, "null"]}[form]
        fields.append({"name": f"field{place}", "type": union})
        strategies[f"field{place}"] = values if form == "plain" else st.none() | values
    schema = {"type": "record", "name": "Row", "fields": fields}
    rows = draw(st.lists(st.none() | st.fixed_dictionaries(strategies), min_size=1, max_size=20))
    return json.dumps(schema), [None if row is None else written(schema, row) for row in rows]


def written(schema: Any, row: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return out.getvalue()


def both(schema: str, values: list[bytes | None], offset: int = 0) -> tuple[pa.Array, pa.Array]:
    """The results of columns and of single values, for the values from `offset` on."""
    registered, column = RegisteredSchema(-1, schema), pa.array(values, pa.binary())[offset:]
    return AvroValues(registered, None)(column), OneByOne(registered, None)(column)


@given(batches(), st.integers(0, 3))
def test_columns_are_the_same_rows_as_single_values(batch: tuple[str, list[bytes | None]], offset: int) -> None:
    schema, values = batch
    at_once, one_by_one = both(schema, values, offset)

    assert at_once.type == one_by_one.type
    assert at_once.to_pylist() == one_by_one.to_pylist()


@given(batches(), st.data())
def test_damage_is_found_in_the_value_that_has_it(batch: tuple[str, list[bytes | None]], data: st.DataObject) -> None:
    schema, values = batch
    joined = bytearray(b"".join(value for value in values if value is not None))
    for _ in range(data.draw(st.integers(0, 2))):
        if joined:
            joined[data.draw(st.integers(0, len(joined) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(joined)), max_size=5)))
    damaged = [bytes(joined[first:last]) for first, last in zip([0, *cuts], [*cuts, len(joined)], strict=True)]

    at_once, one_by_one = both(schema, damaged)

    assert at_once.to_pylist() == one_by_one.to_pylist()


def test_a_byte_that_moves_to_the_next_value_is_damage_in_both() -> None:
    """The joined bytes are still those of two good values."""
    schema = {"type": "record", "name": "Row", "fields": [{"name": "text", "type": "string"}]}
    whole = written(schema, {"text": "abc"}) + written(schema, {"text": "de"})

    at_once, _ = both(json.dumps(schema), [whole[:3], whole[3:]])

    assert [row["text"] for row in at_once.to_pylist()] == [None, None]


def test_an_array_is_left_to_single_values() -> None:
    schema = {"type": "record", "name": "Row", "fields": [{"name": "one", "type": {"type": "array", "items": "int"}}]}
    values = pa.array([written(schema, {"one": [1, 2]})])

    found = AvroValues(RegisteredSchema(-1, json.dumps(schema)), None)
    assert found.at_once(values) is None
    assert found(values).to_pylist()[0]["one"] == [1, 2]


def test_a_union_of_two_types_has_no_column() -> None:
    schema = {"type": "record", "name": "Row", "fields": [{"name": "one", "type": ["int", "string"]}]}
    with pytest.raises(FlowError, match="a union of 2 types has no column"):
        AvroValues(RegisteredSchema(-1, json.dumps(schema)), None)


def test_flat_records_are_read_as_columns() -> None:
    schema = {"type": "record", "name": "Row", "fields": [{"name": "one", "type": ["null", "long"]}]}
    values = pa.array([written(schema, {"one": number}) for number in (None, 1, -(1 << 40))])

    found = AvroValues(RegisteredSchema(-1, json.dumps(schema)), None).at_once(values)

    assert found is not None
    assert [row["one"] for row in found.to_pylist()] == [None, 1, -(1 << 40)]
