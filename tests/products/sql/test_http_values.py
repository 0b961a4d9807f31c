"""Types and values in ksqlDB's JSON, and rows of JSON as SQL."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pytest

from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.catalog.storage import Storage
from moldau.products.sql.language.parser.script import parse_script
from moldau.products.sql.language.statements import CreateSource, InsertValues, Kind
from moldau.products.sql.serving.http.errors import RejectedRequest
from moldau.products.sql.serving.http.inserts import batches, insert_of, literals_of
from moldau.products.sql.serving.http.schemas import ksql_type, schema_text
from moldau.products.sql.serving.http.values import encoded, json_values

TYPES = {
    "boolean": "BOOLEAN",
    "tinyint": "INTEGER",
    "int": "INTEGER",
    "BIGINT": "BIGINT",
    "float": "DOUBLE",
    "double": "DOUBLE",
    "decimal": "DECIMAL(10, 0)",
    "decimal(4,2)": "DECIMAL(4, 2)",
    "DECIMAL(38)": "DECIMAL(38, 0)",
    "string": "STRING",
    "varchar(10)": "STRING",
    "binary": "BYTES",
    "date": "DATE",
    "time(6)": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP",
    "array<decimal(4,2)>": "ARRAY<DECIMAL(4, 2)>",
    "map<string,array<int>>": "MAP<STRING, ARRAY<INTEGER>>",
    "struct<a:int,b: struct<`c d`:string,`e``f`:map<int,bigint>>>": (
        "STRUCT<`a` INTEGER, `b` STRUCT<`c d` STRING, `e`f` MAP<STRING, BIGINT>>>"
    ),
    "struct<>": "STRUCT<>",
    "interval day to second": "STRING",
    "array<interval year to month>": "ARRAY<STRING>",
    "variant": "STRING",
    "void": "STRING",
    "": "STRING",
    "array<": "ARRAY<STRING>",
}

COLUMNS = (
    "id BIGINT PRIMARY KEY, n SMALLINT, price DECIMAL(10, 2), rate DOUBLE, name STRING, is_new BOOLEAN, raw BYTES, "
    "day DATE, at TIMESTAMP, tags ARRAY<STRING>, counts MAP<STRING, INT>, place STRUCT<city STRING, `zip code` INT>, "
    "h BYTES HEADER('h')"
)


def orders() -> Relation:
    statement = parse_script(f"CREATE TABLE orders ({COLUMNS}) WITH (partitions = 1)")[0].statement
    assert isinstance(statement, CreateSource)
    return Relation("orders", Kind.TABLE, Storage(), statement.columns, "")


@pytest.mark.parametrize(("spark", "expected"), TYPES.items())
def test_a_type_of_spark_is_one_of_ksqldb(spark: str, expected: str) -> None:
    assert ksql_type(spark).text == expected


def test_the_schema_of_a_query_quotes_names() -> None:
    assert schema_text([("a", "int"), ("B c", "array<string>")]) == "`a` INTEGER, `B c` ARRAY<STRING>"


def test_values_are_written_as_ksqldb_writes_them() -> None:
    tokyo = datetime.timezone(datetime.timedelta(hours=9))
    row = [
        None, True, 2**63 - 1, 1.5, math.nan, math.inf, -math.inf, Decimal("1234567890.1200"), Decimal("NaN"), "a\n",
        b"\x00\xff", bytearray(b"a"), datetime.datetime(2026, 1, 2, 3, 4, 5, 6000),
        datetime.datetime(2026, 1, 2, 3, 4, 5, 6001), datetime.datetime(2026, 1, 2, 9, tzinfo=tokyo),
        datetime.date(2026, 1, 2), datetime.time(3, 4, 5), [1, [None]], {"a": Decimal("1.0"), 2: b"x"},
        {datetime.date(2026, 1, 2): 1, 1.5: 2, True: 3},
    ]  # fmt: skip
    assert encoded(json_values(row)).decode() == (
        '[null,true,9223372036854775807,1.5,"NaN","Infinity","-Infinity",1234567890.1200,"NaN","a\\n","AP8=","YQ==",'
        '"2026-01-02T03:04:05.006","2026-01-02T03:04:05.006001","2026-01-02T00:00:00.000","2026-01-02","03:04:05",'
        '[1,[null]],{"a":1.0,"2":"eA=="},{"2026-01-02":1,"1.5":2,"true":3}]'
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (b'{"ID": 1, "n": -32768}', {"id": "CAST('1' AS bigint)", "n": "CAST('-32768' AS smallint)"}),
        (b'{"`name`": "it\'s \\\\ ${x}"}', {"name": r"CAST('it\'s \\ ${x}' AS string)"}),
        (b'{"price": 12345678.90}', {"price": "CAST('12345678.90' AS decimal(10,2))"}),
        (b'{"price": "1.5"}', {"price": "CAST('1.5' AS decimal(10,2))"}),
        (b'{"rate": 1e-3}', {"rate": "CAST('0.001' AS double)"}),
        (b'{"is_new": true, "raw": "AP8="}', {"is_new": "CAST('true' AS boolean)", "raw": "unbase64('AP8=')"}),
        (b'{"at": "2026-01-02T03:04:05"}', {"at": "CAST('2026-01-02T03:04:05' AS timestamp)"}),
        (b'{"tags": ["a", null]}',
         {"tags": "CAST(array(CAST('a' AS string), CAST(NULL AS string)) AS array<string>)"}),
        (b'{"counts": {"a": 1}}',
         {"counts": "CAST(map(CAST('a' AS string), CAST('1' AS int)) AS map<string,int>)"}),
        (b'{"counts": {}}', {"counts": "CAST(map() AS map<string,int>)"}),
        (b'{"place": {"ZIP code": 5}}',
         {"place": "named_struct('city', CAST(NULL AS string), 'zip code', CAST('5' AS int))"}),
        (b'{"place": null}', {"place": "CAST(NULL AS struct<city:string,`zip code`:int>)"}),
    ],
)  # fmt: skip
def test_a_row_of_json_is_a_row_of_literals(row: bytes, expected: dict[str, str]) -> None:
    assert literals_of(row, orders()) == expected


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (b"[1]", "the row is no JSON object"),
        (b'{"a": \xff}', "the row is no JSON object"),
        (b"[" * 100_000, "the row is no JSON object"),
        (b"{}", "the row has no column"),
        (b'{"nam": "a"}', "orders has no column nam; did you mean name"),
        (b'{"h": "a"}', "orders has no column h"),
        (b'{"id": "1"}', 'id is BIGINT, and the row gives "1"'),
        (b'{"id": 1.0}', "id is BIGINT, and the row gives 1.0"),
        (b'{"id": true}', "id is BIGINT, and the row gives true"),
        (b'{"n": 32768}', "n is smallint: 32768 is out of range"),
        (b'{"id": 9223372036854775808}', "id is bigint: 9223372036854775808 is out of range"),
        (b'{"name": 1}', "name is STRING, and the row gives 1"),
        (b'{"price": "1,5"}', "price is DECIMAL"),
        (b'{"rate": "\') --"}', "rate is DOUBLE"),
        (b'{"raw": "*"}', "raw is BYTES: give it in base64"),
        (b'{"raw": 1}', "raw is BYTES: give it in base64"),
        (b'{"tags": "a"}', "tags is ARRAY<STRING>"),
        (b'{"tags": ["a", 1]}', r"tags\[1\] is STRING"),
        (b'{"counts": {"a": "b"}}', r"counts\['a'\] is INTEGER"),
        (b'{"place": {"street": "a"}}', "place has no field street"),
    ],
)
def test_a_wrong_row_is_one_sentence(row: bytes, problem: str) -> None:
    with pytest.raises(RejectedRequest, match=problem):
        literals_of(row, orders())


def test_rows_with_the_same_columns_are_one_insert() -> None:
    rows = [
        literals_of(row, orders())
        for row in (b'{"id": 1, "name": "a"}', b'{"id": 2, "name": "\'); DROP TABLE orders; --"}', b'{"id": 3}')
    ]
    first, second = batches(rows)
    assert len(second) == 1
    insert = insert_of(orders(), first).statement
    assert isinstance(insert, InsertValues)
    assert [name.text for name in insert.columns] == ["id", "name"]
    assert insert.rows[1][1].text == r"CAST('\'); DROP TABLE orders; --' AS string)"
    assert len(batches([rows[2]] * 1201)) == 3
