"""A result of SQL that a target cannot store is rejected in one sentence before a query starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.running.flow import load_sources, make_result, make_views
from moldau.products.pipelines.sources.topic import TopicSource
from moldau.products.pipelines.spec.spec import parse_spec

SPEC = """\
name: pipe
bootstrap_servers: a:1
source: {{files: in, format: json, schema: "user string, amount double, at timestamp", {more}}}
sql: {sql}
sink: {{{sink}}}
"""
SQLITE, DELTA, ICEBERG = "sqlite: out.db, table: t", "delta: out", "iceberg: a.b"
LATE = "event_time: at, watermark: 10 seconds"
CHANGES = "mode: update, key: user, sequence_by: at"


@pytest.fixture
def result_of(spark, tmp_path: Path):
    """`result_of(sql, sink, more)`: the output of a query of such a pipeline."""
    (tmp_path / "in").mkdir()

    def make(sql: str, sink: str = "path: out", more: str = ""):
        text = SPEC.format(sql=sql, sink=sink, more=more)
        spec = parse_spec(text, file_name="spec.yaml", directory=tmp_path)
        return make_result(spec, spec.queries[0], make_views(spark, spec, load_sources(spark, spec, {})))

    return make


@pytest.mark.parametrize(
    ("more", "sql", "reason"),
    [
        (LATE, "select user, count(*) as n from source group by user", r"more: group by a window .*window\(at, "),
        ("", "select sum(amount) as amount from source", r"more: say with `watermark` of the source how late rows "),
        (LATE, "select * from source order by at", "spec.yaml:5: `sink`: Sorting is not supported on streaming"),
        ("", "select user, rank() over (partition by user order by at) as n from source", "NON_TIME_WINDOW"),
    ],
)
def test_what_no_stream_can_do_is_refused_before_a_query_starts(result_of, more: str, sql: str, reason: str):
    with pytest.raises(FlowError, match=reason) as error:
        result_of(sql, more=more)
    assert "+- " not in str(error.value)  # Spark's picture of the query


@pytest.mark.parametrize(
    ("sink", "value", "reason"),
    [
        (DELTA, "at - at", "the column 'value' has the type interval day to second, and `delta` has none for interval"),
        (DELTA, "array(at - at)", "array<interval day to second>, and `delta` has none for interval: cast it"),
        (ICEBERG, "null", "the column 'value' has the type void, and `iceberg` has none for void: cast it to another"),
        (ICEBERG, "struct(at - at as a)", "`iceberg` has none for interval"),
        (SQLITE, "parse_json('{}')", "the column 'value' has the type variant, and `sqlite` has none for variant"),
    ],
)
def test_a_type_that_a_table_lacks_is_refused(result_of, sink: str, value: str, reason: str):
    with pytest.raises(FlowError, match=reason):
        result_of(f"select user, {value} as value from source", sink)


def test_a_time_of_day_is_a_type_of_streams(result_of):
    rows = result_of("select user, time'10:00:00' as time from source", "iceberg: a.b")
    assert dict(rows.dtypes)["time"] == "time(6)"


@pytest.mark.parametrize("sink", [DELTA, ICEBERG])
def test_a_key_that_is_no_plain_value_is_refused(result_of, sink: str):
    with pytest.raises(
        FlowError, match=r"'k', which `key` names, has the type struct<.*: rows are told apart by plain"
    ):
        result_of("select struct(user) as k from source", f"{sink}, mode: update, key: k")


@pytest.mark.parametrize(("sink", "place"), [("path: out", "Parquet"), (DELTA, "Delta"), (ICEBERG, "Iceberg")])
@pytest.mark.parametrize("value", ["struct()", "array(struct())", "named_struct('a', struct())"])
def test_a_struct_without_fields_is_refused_where_files_have_none(result_of, sink: str, place: str, value: str):
    with pytest.raises(
        FlowError, match=f"the column 'value' has the type .*, and {place} has no struct without fields"
    ):
        result_of(f"select user, {value} as value from source", sink)


@pytest.mark.parametrize("sink", [DELTA, ICEBERG, SQLITE])
def test_a_field_may_be_called_like_a_type(result_of, sink: str):
    result_of("select named_struct('void', 1, 'interval', 2, 'variant', 3) as s, amount as interval from source", sink)


@pytest.mark.parametrize("sink", ["path: out", "topic: out", "webhook: 'http://a:1'", DELTA, ICEBERG, SQLITE])
def test_two_columns_of_one_name_are_refused(result_of, sink: str):
    with pytest.raises(FlowError, match="the SQL gives two columns 'user': give each its own name"):
        result_of("select user, amount as user from source", sink)


def test_json_may_have_two_names_that_differ_in_case(result_of):
    result_of("select user, amount as User from source", "topic: out")


FIELDS = {
    "json": '{"properties": {"Id": {"type": "string"}, "id": {"type": "integer"}}}',
    "avro": '{"type": "record", "name": "r", "fields": [{"name": "Id", "type": "string"},'
    ' {"name": "id", "type": "int"}]}',
    "protobuf": 'syntax = "proto3"; message R { string Id = 1; int32 id = 2; }',
}


@pytest.mark.parametrize("record_format", FIELDS)
def test_fields_whose_names_differ_in_case_alone_are_refused(spark, tmp_path: Path, record_format: str):
    (tmp_path / "fields.proto").write_text(FIELDS[record_format])
    text = (
        "name: p\nbootstrap_servers: a:1\n"
        f"source: {{topic: t, format: {record_format}, schema_file: fields.proto}}\n"
        "sql: select 1 as one from source\nsink: {path: out}"
    )
    spec = parse_spec(text, file_name="spec.yaml", directory=tmp_path)
    loaded = spark.createDataFrame([], TopicSource.GIVEN_COLUMNS)
    with pytest.raises(
        FlowError, match=r"spec\.yaml:3: `source`: the schema has 'Id' and 'id', which SQL does not tell"
    ):
        make_views(spark, spec, {"source": loaded})


@pytest.mark.parametrize("key", ["column_list", "except_column_list"])
def test_a_column_that_is_left_out_must_be_there(result_of, key: str):
    more = ", apply_as_deletes: amount < 0"
    names = ("user, Amount", "user, amuont") if key == "column_list" else ("At", "amuont")
    result_of("select * from source", f"{SQLITE}, {CHANGES}{more}, {key}: [{names[0]}]")
    with pytest.raises(FlowError, match=f"`{key}` names 'amuont', but the SQL gives user, amount, at, _file$"):
        result_of("select * from source", f"{SQLITE}, {CHANGES}{more}, {key}: [{names[1]}]")
