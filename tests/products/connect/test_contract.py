"""The contract of a connector: schemas in DDL, values of Spark and of Kafka Connect, classes and their names."""

from __future__ import annotations

import datetime as dt
import tomllib
from decimal import Decimal
from importlib.metadata import EntryPoint

import pytest
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    Row,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from moldau.connect.configuration import ConfigError
from moldau.connect.contract.bounds import MAX_DDL_DEPTH
from moldau.connect.contract.columns import gives_records, is_envelope, sink_schema, source_schema
from moldau.connect.contract.ddl import DdlError, parse_ddl
from moldau.connect.contract.describing import Delivery, Reading, describe, is_sink_config, split
from moldau.connect.contract.finding import find, names_of
from moldau.connect.contract.schemas import SchemaError, row_value_maker, to_connect, to_spark, value_maker
from moldau.connect.data.schema import DECIMAL, TIMESTAMP, Field, Schema, Type
from tests.support.source_tree import ROOT


def test_ddl_is_read_without_a_session() -> None:
    found = parse_ddl("a INT NOT NULL COMMENT 'one', `b ``c` decimal(10, 2), d array<map<string, struct<e: long>>>")
    nested = StructType([StructField("e", LongType())])
    assert found == StructType(
        [
            StructField("a", IntegerType(), False, {"comment": "one"}),
            StructField("b `c", DecimalType(10, 2)),
            StructField("d", ArrayType(MapType(StringType(), nested))),
        ]
    )
    assert parse_ddl("STRUCT<a: INT>") == StructType([StructField("a", IntegerType())])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a INTERVAL", "the type INTERVAL is not read here, did you mean INTEGER?"),
        ("a STIRNG", "did you mean STRING?"),
        ("a GEOGRAPHY(4326)", "the type GEOGRAPHY is not read here: the types are BOOLEAN"),
        ("a INT DEFAULT 1", "DEFAULT of the column 'a' is not read here"),
        ("a INT, a INT", "the column 'a' stands twice"),
        ("a DECIMAL(39)", "the precision is 1 to 38"),
        ("a VARCHAR(x)", "has 'x' at character 11"),
        ("a ARRAY<INT", "has the end at character 12, expected '>'"),
        ("a INT; b INT", "cannot be read from character 6 on"),
        ("", "expected the name of a column"),
        ("a " + "ARRAY<" * (MAX_DDL_DEPTH + 2), f"more than {MAX_DDL_DEPTH} nested types"),
    ],
)
def test_other_ddl_is_rejected_by_name(text: str, sentence: str) -> None:
    with pytest.raises(DdlError) as raised:
        parse_ddl(text)
    assert sentence in str(raised.value)


def test_rows_of_spark_become_values_and_rows_again() -> None:
    kind = parse_ddl("n INT NOT NULL, d DECIMAL(9, 2), t TIMESTAMP, l ARRAY<STRUCT<b: BINARY>>, m MAP<STRING, DATE>")
    schema = to_connect(kind, optional=False)
    assert schema.get_field("n") == Field("n", Schema(Type.INT32))
    assert [one.schema.name for one in schema.fields[1:3]] == [DECIMAL, TIMESTAMP]
    moment, day = dt.datetime(2024, 5, 6, 7, 8, 9, 123_456, dt.UTC), dt.date(2024, 1, 2)
    row = Row(n=1, d=Decimal("1.5"), t=moment, l=[(bytearray(b"x"),)], m={"k": day})
    value = value_maker(kind)(row)
    assert value == {
        "n": 1,
        "d": Decimal("1.50"),
        "t": moment.replace(microsecond=123_000),
        "l": [{"b": b"x"}],
        "m": {"k": day},
    }
    again = row_value_maker(schema)(value)
    assert again.t == moment.replace(microsecond=123_000).astimezone().replace(tzinfo=None)
    assert (again.n, again.d, again.l, again.m) == (1, Decimal("1.50"), [Row(b=b"x")], {"k": day})
    assert to_spark(schema) == kind
    assert value_maker(kind)({"n": 1, "d": None, "t": None, "l": None})["m"] is None


def test_types_without_a_counterpart() -> None:
    assert to_spark(None) == VariantType()
    with pytest.raises(SchemaError, match="no type for variant"):
        to_connect(VariantType())
    with pytest.raises(SchemaError, match="parameters"):
        to_spark(Schema(Type.BYTES, name=DECIMAL))
    with pytest.raises(SchemaError, match="2 values, its schema 1 columns"):
        value_maker(parse_ddl("a INT"))((1, 2))


def test_the_columns_of_records() -> None:
    assert gives_records(source_schema())
    assert not gives_records(sink_schema())
    assert is_envelope(parse_ddl("schema STRING, payload STRING"))
    assert not is_envelope(parse_ddl("schema STRING, payload INT"))
    assert sink_schema()["timestamp"].dataType == TimestampType()


@pytest.mark.usefixtures("own_module")
def test_a_class_says_what_it_is() -> None:
    lines, files = describe(find("gated:Lines")), describe(find("gated:Files"))
    assert (lines.reading, lines.types, lines.source_delivery) == (Reading.STREAM, ("source",), Delivery.EXACTLY_ONCE)
    assert (files.types, files.sink_delivery) == (("sink",), Delivery.EXACTLY_ONCE)
    assert describe(find("gated:Numbers")).key_columns == ("n",)
    assert describe(find("gated:Table")).reading is Reading.BATCH
    assert is_sink_config(files, {})
    assert not is_sink_config(lines, {"topics": "a"})
    with pytest.raises(ConfigError, match="has none of streamReader, simpleStreamReader, reader, streamWriter"):
        describe(find("gated:Reader"))


@pytest.mark.usefixtures("own_module")
def test_a_split_gives_each_task_its_configuration() -> None:
    generator = find("moldau.connectors.datagen:DataGenerator")
    assert [one["part"] for one in split(generator, {"seed": "1"}, 3)] == ["0", "1", "2"]
    assert split(find("gated:Lines"), {"a": "b"}, 3) == [{"a": "b"}]
    assert split(find("gated:Files"), {"a": "b"}, 2) == [{"a": "b"}, {"a": "b"}]
    with pytest.raises(ConfigError, match="expected 1 to 1000"):
        split(generator, {}, 1001)


@pytest.mark.usefixtures("own_module")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nothing", "No connector has the name nothing"),
        ("gated:Linse", "gated has no Linse, did you mean Lines?"),
        ("gated:wait_at", "wait_at is not a subclass of pyspark.sql.datasource.DataSource"),
        ("gatde:Lines", "no module gatde is on the worker's PYTHONPATH"),
    ],
)
def test_an_unknown_class_is_rejected(name: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as raised:
        find(name)
    assert sentence in raised.value.errors["connector.class"][0]


def test_names_of_kafka_find_entry_points() -> None:
    assert names_of("org.apache.kafka.connect.file.FileStreamSourceConnector")[1:] == [
        "FileStreamSourceConnector",
        "FileStreamSource",
    ]


def test_each_entry_point_of_the_project_is_a_connector() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, value in project["entry-points"]["moldau.connectors"].items():
        point = EntryPoint(name, value, "moldau.connectors")
        assert describe(find(f"{point.module}:{point.attr}")).types, name
        assert set(point.extras) <= set(project["optional-dependencies"]), name
