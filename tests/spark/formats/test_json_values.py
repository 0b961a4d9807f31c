"""JSON in a pipeline gives the same row as Spark's `from_json`, with either reader of a value."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from moldau.products.pipelines.formats.format import CORRUPT_COLUMN
from moldau.products.pipelines.formats.text import READ, JsonFormat
from moldau.spark.source.reading import Decoding

SCHEMA = "id bigint, n int, d double, ok boolean, s string, at timestamp"
NAMES = ("id", "n", "d", "ok", "s", "at")

NUMBERS = (
    "0", "-0", "1", "-1", "007", "+1", "1.0", "1e3", "-0.0", "1E5", "1.", ".5", "1e", "0.1", "NaN", "Infinity",
    "-Infinity", "INF", "1e308", "1e309", "1e-400", "-1e-400", "4.9e-324", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551616", "2147483647",
    "2147483648", "-2147483648", "-2147483649", "123456789012345678901234567890", "9007199254740993",
    "9007199254740993.0", "2.2250738585072011e-308", "2.4703282292062327e-324", "0.30000000000000004", "1764000000",
    "1764000000.5",
)  # fmt: skip
LONG_NUMBERS = ("0" * 400, "1" * 999, "1" * 1_001, "0." + "1" * 1_001, "1." + "0" * 600 + "1e" + "0" * 600 + "1")
WORDS = ("true", "false", "TRUE", "null", "nul", "[]", "{}", "[1,2]", '{"a":{"b":[1,{"c":2}]}}', "[[[]]]", "'a'")
TEXTS = (
    '""', '"a"', '"1"', '"1.5"', '"true"', '"NaN"', '"Infinity"', '"\\u0041"', '"\\ud83d\\ude00"', '"\\ud800"',
    '"\\udc00x"', '"\\u12"', '"\\q"', '"\\/"', '"\\u0000"', '"é"', '"😀"', '"a\nb"', '"a\tb"', '"\\n"', '"\x7f"',
    '"\u2028"',
)  # fmt: skip
TIMES = tuple(
    f'"{text}"'
    for text in (
        "2026-11-24T10:00:00Z", "2026-11-24T10:00:00.123+00:00", "2026-11-24 10:00:00.123456-05:30",
        "2026-11-24T10:00:00.000001Z", "2026-11-24T10:00:00.1234567Z", "2026-11-24 10:00:00", "2026-11-24T10:00:00.5",
        "2026-11-24", "2026-11", "2026", "2026-02-28T10:00:00Z", "2026-02-29T10:00:00Z", "2028-02-29T10:00:00Z",
        "2026-04-31T10:00:00Z", "2026-12-31T10:00:00Z", "2026-13-01T10:00:00Z", "2026-11-24T24:00:00Z",
        "2026-11-24T23:60:00Z", "2026-11-24T23:59:60Z", "2026-11-24T23:59:59+18:00", "2026-11-24T23:59:59+17:59",
        "2026-11-24T23:59:59-17:59", "2026-11-24T23:59:59+19:00", "2026-11-24T10:00:00 Europe/Prague",
        "2026-11-24T10:00:00+01", "2026-11-24T10:00:00.Z", "0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z",
        "1582-10-10T00:00:00Z", "1500-02-28T00:00:00Z", "9999-12-31T23:59:59.999999Z", "1883-11-18 12:00:00",
        "1969-12-31T23:59:59.999999Z", " 2026-11-24T10:00:00Z", "2026-11-24T10:00:00Z ", "2026-11-24T10:00:00z",
        "2026-11-24t10:00:00Z", "2026-1-2T3:4:5Z", "12026-11-24T10:00:00Z", "T10:00", "epoch", "now",
        "2026-11-24T10:00:00\\u005a", "2026-03-08 02:30:00", "2026-11-01 01:30:00", "2026-11-24T10:00:00Z\\n",
        "\u0662026-11-24T10:00:00Z",
    )
)  # fmt: skip
SCALARS = (*NUMBERS, *LONG_NUMBERS, *WORDS, *TEXTS, *TIMES)
PLAIN = {
    "id": ("0", "-5", "12345678901", "null"),
    "n": ("7", "-7", "null"),
    "d": ("1.5", "2", "-3e5", "8.41", "null"),
    "ok": ("true", "false"),
    "s": ('"x"', '"é😀"', '""', '"\\"q\\\\ \\n"'),
    "at": TIMES,
}
WHOLE = (
    "", "   ", "null", "[]", "{}", "{ }", '[{"id":1}]', '[{"id":1},{"id":2}]', '{"id":1}x', '{"id":1} {"id":2}',
    '{"id":1}{',
    '{"id":1}\n{"id":2}', '{"id":1', '{"id":1,}', '{,"id":1}', '{"id" 1}', "{id:1}", "{'id':1}", '\ufeff{"id":1}',
    '{"id":1}\0', '\0{"id":1}', '{"id":1}//c', '/*c*/{"id":1}', '"text"', "1", "true", '{"id":1}\u00a0',
    '\u00a0{"id":1}',
    '\x0b{"id":1}', '\n\t\r {"id":1}\n\t\r ', '{"ID":1,"Id":2}', '{"id":1,"id":null}', '{"id":null,"id":1}',
    '{"id":"x","id":1}', '{"id":1,"id":"x"}', '{"\\u0069d":7}', '{"id ":1}', '{"":1,"id":2}',
    '{"at":"now","at":"2026-11-24T10:00:00Z"}', '{"\\u0061t":"now","at":"2026-11-24T10:00:00Z"}',
    f'{{"{CORRUPT_COLUMN}":"x","id":1}}', f'{{"{CORRUPT_COLUMN}":1,"id":1}}',
    *('{"x":' + "[" * depth + "]" * depth + ',"id":1}' for depth in (850, 998, 1_005, 6_000)),
    *('{"' + "k" * length + '":1,"id":2}' for length in (49_000, 50_001)),
    *(f'{{"x":{number},"id":2}}' for number in LONG_NUMBERS),
)  # fmt: skip
BYTES = (
    b'{"s":"\xff"}', b'{"s":"\xc3\x28"}', b'{"s":"\xed\xa0\x80"}', b'{"s":"\xc0\xaf"}', b'{"x":"\xff","id":1}',
    b'{"\xff":1,"id":1}', b'\xff{"id":1}', b'{"id":1}\xff', b'{"s":"\xe2\x82"}',
    *('{"id":1}'.encode(name) for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be")),
)  # fmt: skip


def values() -> Iterator[bytes]:
    yield from (text.encode() for text in WHOLE)
    yield from BYTES
    yield from (f'{{"{name}":{scalar}}}'.encode() for name in (*NAMES, "x") for scalar in SCALARS)
    chance = random.Random(13)
    yield from (damaged(chance, record(chance)) for _ in range(4_000))


def record(chance: random.Random) -> bytes:
    """An object of some of the fields, in any order, now and then with a repeated field or a strange value."""
    names = [*chance.sample(NAMES, chance.randrange(len(NAMES) + 1)), *chance.choices((*NAMES, "x"), k=2)]
    fields = []
    for name in names[: len(names) - chance.choice((0, 1, 2, 2, 2))]:
        value = chance.choice(PLAIN.get(name, SCALARS) if chance.random() < 0.8 else SCALARS)
        if name == "d" and chance.random() < 0.5:
            value = repr(chance.uniform(-1, 1) * 10.0 ** chance.randrange(-320, 308))
        key = json.dumps(name)
        if chance.random() < 0.05:
            key = chance.choice(
                (f'"{name.upper()}"', f'"{name} "', '"' + "".join(f"\\u{ord(one):04x}" for one in name) + '"')
            )
        space = chance.choice(("", "", " ", "\n"))
        fields.append(f"{space}{key}{space}:{space}{value}{space}")
    return ("{" + ",".join(fields) + "}").encode()


def damaged(chance: random.Random, value: bytes) -> bytes:
    if chance.random() > 0.15:
        return value
    at, wrong = chance.randrange(len(value)), bytes([chance.choice(b'{}[],:"\\ 0e.-\n\x00\xff+')])
    return chance.choice(
        (value[:at] + wrong + value[at + 1 :], value[:at] + value[at + 1 :], value[:at] + wrong + value[at:])
    )


@pytest.fixture
def zone(spark, request) -> Iterator[str]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"], indirect=True)
def test_a_value_is_the_row_that_from_json_makes_of_it(spark, zone):
    """Read in the query, and where the records are read."""
    given = [None, *values()]
    records = spark.createDataFrame(list(enumerate(given)), "number int, value binary").repartition(2).persist()
    decoder = JsonFormat(schema=SCHEMA)
    columns = decoder.reader(spark)
    decoding = Decoding(READ, columns.kind, columns)
    numbered = pa.record_batch(
        {"number": pa.array(range(len(given)), pa.int32()), "value": pa.array(given, pa.binary())}
    )
    at_source = spark.createDataFrame(pa.Table.from_batches([decoding.add(numbered)]))
    options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT_COLUMN}')"
    schema = f"'{SCHEMA}, {CORRUPT_COLUMN} string'"

    by_spark = records.selectExpr("number", f"from_json(cast(value as string), {schema}, {options}) as _value")
    expected = seen(by_spark)
    assert differing(seen(decoder.decoded(records)), expected, given) == []
    assert differing(seen(decoder.decoded(at_source)), expected, given) == []

    # otherwise nothing is compared: each of the two reads a good share
    read_here = len(given) - at_source.where(f"{READ} is null").count()
    assert 1_000 < read_here < len(given) - 1_000
    records.unpersist()


def seen(decoded) -> dict[int, str]:
    """Each row as a text that distinguishes -0.0 from 0.0; times as numbers, because Python's range is smaller."""
    rows = decoded.selectExpr("number", "_value is null", "_value.*", "unix_micros(_value.at)").drop("at").collect()
    return {row["number"]: repr(row) for row in rows}


def differing(
    found: dict[int, str], expected: dict[int, str], given: list[bytes | None]
) -> list[tuple[bytes | None, str, str]]:
    assert found.keys() == expected.keys()
    return [(given[number], row, expected[number]) for number, row in found.items() if row != expected[number]]


@pytest.mark.parametrize("policy", ["LEGACY", "legacy"])
def test_times_of_an_old_kind_are_left_to_from_json(spark, policy: str):
    before = spark.conf.get("spark.sql.legacy.timeParserPolicy")
    spark.conf.set("spark.sql.legacy.timeParserPolicy", policy)
    try:
        assert JsonFormat(schema=SCHEMA).reader(spark) is None
    finally:
        spark.conf.set("spark.sql.legacy.timeParserPolicy", before)


@pytest.mark.slow
def test_a_pipeline_reads_plain_values_and_those_that_from_json_alone_takes(run_spec, new_topic, produce, read_back):
    source, target = new_topic(), new_topic()
    given = [
        b'{"user":"ann","amount":2.5}',
        b"{'user':'bob','amount':3}",
        b'{"user":7}',
        b'{"user":"cyd","amount":true}',
    ]
    produce(source, [(None, value) for value in given])
    spec = f"""
source: {{topic: {source}, format: json, schema: "user string, amount double"}}
sql: select user, amount, _offset as number from source
sink: {{topic: {target}}}
"""
    (state,) = run_spec(spec)
    assert (state.records_read, state.dead_letters) == (4, 1)
    assert [json.loads(value or b"") for _, value in read_back(target)] == [
        {"user": "ann", "amount": 2.5, "number": 0},
        {"user": "bob", "amount": 3.0, "number": 1},
        {"user": "7", "number": 2},
    ]


def test_types_that_are_not_plain_are_left_to_from_json(spark):
    assert JsonFormat(schema="id bigint, prices array<double>").reader(spark) is None
    assert JsonFormat(schema="id bigint, amount decimal(10, 2)").reader(spark) is None
