"""Times in columns of rows that are written by a schema: any time zone of a session, and the ends of the calendar."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from moldau.errors import MoldauError
from moldau.products.pipelines.formats.json_schema import JsonSchemaWriter
from moldau.products.pipelines.formats.registry import RegisteredSchema

TIME = {"type": "string", "format": "date-time"}
SCHEMA = {
    "type": "object",
    "properties": {
        "at": TIME,
        "day": {"type": "string", "format": "date"},
        "times": {"type": "array", "items": TIME},
        "inside": {"type": "object", "properties": {"at": TIME}},
        "by_name": {"type": "object", "additionalProperties": TIME},
    },
}
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
WRITTEN = {FIRST: "0001-01-01T00:00:00Z", LAST: "9999-12-31T23:59:59.999999Z"}


def written(column: pa.Array, name: str) -> object:
    """The output for the first row."""
    writer = JsonSchemaWriter(RegisteredSchema(-1, json.dumps(SCHEMA)), None, None)
    return json.loads(writer(pa.StructArray.from_arrays([column], [name]))[0].as_py())


def in_zone(zone: str, moment: datetime) -> pa.Array:
    return pa.array([moment], pa.timestamp("us", "UTC")).cast(pa.timestamp("us", zone))


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("moment", [FIRST, LAST])
def test_times_at_the_ends_of_the_calendar_are_written_in_every_zone(zone, moment):
    column, text = in_zone(zone, moment), WRITTEN[moment]
    assert written(column, "at") == {"at": text}
    assert written(pa.ListArray.from_arrays([0, 1], column), "times") == {"times": [text]}
    assert written(pa.StructArray.from_arrays([column], ["at"]), "inside") == {"inside": {"at": text}}
    by_name = pa.MapArray.from_arrays([0, 1], pa.array(["a"]), column)
    assert written(by_name, "by_name") == {"by_name": {"a": text}}


def test_a_time_before_zones_had_whole_minutes_is_the_same_moment():
    assert written(in_zone("Europe/Berlin", datetime(1800, 1, 1, tzinfo=UTC)), "at") == {"at": "1800-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("at", pa.array([2**62], pa.int64()).view(pa.timestamp("us", "UTC"))),
        ("day", pa.array([10_000_000], pa.int32()).view(pa.date32())),
    ],
)
def test_a_time_that_json_cannot_say_does_not_fit_the_schema(name, column):
    with pytest.raises(MoldauError, match=f"a row does not fit the schema: '{name}' has a time outside of the years 1"):
        written(column, name)
