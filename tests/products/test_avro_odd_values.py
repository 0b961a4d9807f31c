"""Odd values of every Avro type are right cells, dead letters with a reason, or rejected: both ways and everywhere."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pyarrow as pa
import pytest

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.formats.avro import AvroValues, AvroWriter
from moldau.products.pipelines.formats.avro_schema import LOGICAL, PRIMITIVES
from moldau.products.pipelines.formats.format import CORRUPT_COLUMN
from moldau.products.pipelines.formats.registry import RegisteredSchema
from tests.avro_pairs.encoding import Branch, Json, encoded
from tests.avro_pairs.odd_values import ODD_VALUES, NoCell, Odd
from tests.avro_pairs.told import OneByOne

PLACES: dict[str, Any] = {
    "alone": (lambda kind: kind, lambda raw: raw, lambda cell: cell),
    "beside null": (lambda kind: ["null", kind], lambda raw: Branch(1, raw), lambda cell: cell),
    "before null": (lambda kind: [kind, "null"], lambda raw: Branch(0, raw), lambda cell: cell),
    "in an array": (lambda kind: {"type": "array", "items": kind}, lambda raw: [raw], lambda cell: [cell]),
    "in a map": (lambda kind: {"type": "map", "values": kind}, lambda raw: {"k": raw}, lambda cell: [("k", cell)]),
}
"""By type: the schema, the encoded value, and the cell."""


def row(kind: Json) -> Json:
    return {"type": "record", "name": "Row", "fields": [{"name": "cell", "type": kind}, {"name": "n", "type": "int"}]}


def registered(kind: Json) -> RegisteredSchema:
    return RegisteredSchema(-1, json.dumps(row(kind)))


def shown(cell: object) -> str:
    """Distinguishes -0.0 from 0.0, and treats NaN as equal; Arrow's UTC is another object than Python's."""
    return repr(cell).replace("zoneinfo.ZoneInfo(key='UTC')", repr(datetime.UTC))


def places() -> list[Any]:
    return [
        pytest.param(odd, place, id=f"{name} {place}")
        for name, odd in ODD_VALUES.items()
        for place in PLACES
        if name != "null" or place not in ("beside null", "before null")
    ]


def test_the_table_has_every_type() -> None:
    kinds = {*PRIMITIVES, "record", "enum", "fixed", "array", "map", *LOGICAL}
    assert kinds <= ODD_VALUES.keys()
    assert not [name for name, odd in ODD_VALUES.items() if not odd.read or not odd.refused]


@pytest.mark.parametrize(("odd", "place"), places())
def test_an_odd_value_is_its_cell_or_a_dead_letter_beside_any_neighbours(odd: Odd, place: str) -> None:
    schema_of, raw_of, cell_of = PLACES[place]
    kind = schema_of(odd.schema)
    values = [encoded(row(kind), {"cell": raw_of(raw), "n": n}) for n, (raw, _) in enumerate(odd.read)]
    together = AvroValues(registered(kind), None)(pa.array(values, pa.binary()))
    for one, found, (_, cell) in zip(values, together.to_pylist(), odd.read, strict=True):
        (alone,) = AvroValues(registered(kind), None)(pa.array([one], pa.binary())).to_pylist()
        (single,) = OneByOne(registered(kind), None)(pa.array([one], pa.binary())).to_pylist()
        assert shown(found) == shown(alone) == shown(single)
        if isinstance(cell, NoCell):
            assert (found["n"], cell.reason in found[CORRUPT_COLUMN]) == (None, True), found[CORRUPT_COLUMN]
        else:
            assert (shown(found["cell"]), found[CORRUPT_COLUMN]) == (shown(cell_of(cell)), None)


@pytest.mark.parametrize(("odd", "place"), places())
def test_an_odd_cell_is_written_so_that_it_is_read_again(odd: Odd, place: str) -> None:
    schema_of, _, cell_of = PLACES[place]
    values = AvroValues(registered(schema_of(odd.schema)), None)
    cells = [cell_of(cell) for _, cell in odd.read if not isinstance(cell, NoCell)]
    kind = pa.struct([field for field in values.kind if field.name != CORRUPT_COLUMN])
    rows = pa.array([{"cell": cell, "n": n} for n, cell in enumerate(cells)], kind)
    found = values(AvroWriter(registered(schema_of(odd.schema)), None, None)(rows))
    assert [shown(one["cell"]) for one in found.to_pylist()] == [shown(cell) for cell in cells]


@pytest.mark.parametrize(
    ("odd", "kind", "value"),
    [
        pytest.param(odd, *refused, id=f"{name} {refused[0]}")
        for name, odd in ODD_VALUES.items()
        for refused in odd.refused
    ],
)
def test_a_value_that_is_none_of_the_type_is_refused(odd: Odd, kind: pa.DataType, value: Any) -> None:
    rows = pa.array([{"cell": value, "n": 0}], pa.struct({"cell": kind, "n": pa.int32()}))
    for schema in (odd.schema, {"type": "array", "items": odd.schema}, ["null", odd.schema]):
        given = rows
        if isinstance(schema, dict) and schema.get("items") == odd.schema:
            given = pa.array([{"cell": [value], "n": 0}], pa.struct({"cell": pa.list_(kind), "n": pa.int32()}))
        if value is None and isinstance(schema, list):
            continue
        with pytest.raises(FlowError, match="a row does not fit the schema"):
            AvroWriter(registered(schema), None, None)(given)
