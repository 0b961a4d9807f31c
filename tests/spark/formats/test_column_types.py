"""Declared columns are read without Spark as Spark's own parser reads them: which are valid, and what they mean."""

from __future__ import annotations

from random import Random

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from moldau.products.pipelines.core.column_types import ColumnsError, columns_of

TAKEN = [
    "user string, amount double, at timestamp",
    "a decimal(10,2), b DECIMAL( 38 , 38 ), c decimal, d dec(5), e numeric(3, 0)",
    "a array<int>, b map<string,array<bigint>>, c struct<x:int, y: array<struct<z double>>>, d struct<>",
    "a int not null, b string comment 'what it is', c struct<x: int not null comment \"it's\", y int> COMMENT '\\'' ",
    "a interval, b interval year, c interval year to month, d interval month, e interval day, f interval day to hour",
    "a interval day to minute, b interval day to second, c interval hour to second, d interval minute to second",
    "a boolean, b byte, c tinyint, d short, e smallint, f integer, g long, h real, i float, j date, k binary, l void",
    "a timestamp_ltz, b timestamp_ntz, c timestamp, d variant, e char(3), f varchar(12), g character(1)",
    "a timestamp without time zone, b time, c time(3), d time(0) without time zone, e time(9)",
    "a string collate UTF8_LCASE, b string",
    "`a column` int, `with``tick` int, `größe` int, a struct<`größe`: int>",
    "_x int, 2x int",
    "date date, array array<int>, interval interval, struct int, not int, comment string",
    "a int -- a comment\n, /* another */ b int",
    "A INT, b Array<MAP<String,Struct<C:Int>>>",
]
REFUSED = [
    "", "a", "a int,", ", a int", "a int b int", "a dobule", "a decimal(2,3)", "a decimal(39)", "a decimal(", "a char",
    "a varchar", "a array", "a array<>", "a map<int>", "a map<int,int,int>", "a struct<x>", "a int not", "a int null",
    "a int comment", "a int comment x", "a: int", "1 int", "a-b int", "a interval year to day",
    "a interval second to day",
    "a array<int", "a int>", "a timestamp without", "a timestamp without time", "a decimal(1,2,3)", "a decimal(x)",
    "a int comment 'x' not null", "a varchar(x)", "a interval day to day", "a string collate", "a time(10)",
    "größe int", "a struct<größe: int>",
]  # fmt: skip


@pytest.fixture
def spark_reads(spark):
    """The columns that Spark's parser finds, as its `simpleString`; None if it rejects them."""
    parse = spark.sparkContext._jvm.org.apache.spark.sql.types.StructType.fromDDL

    def read(text: str) -> str | None:
        try:
            return str(parse(text).simpleString())
        except (PySparkException, Py4JError):
            return None

    return read


def ours(text: str) -> str | None:
    try:
        return f"struct<{','.join(f'{name}:{kind}' for name, kind in columns_of(text).items())}>"
    except ColumnsError:
        return None


@pytest.mark.parametrize("text", TAKEN)
def test_what_spark_takes_means_the_same(spark_reads, text: str):
    assert ours(text) == spark_reads(text) is not None


@pytest.mark.parametrize("text", REFUSED)
def test_what_spark_refuses_is_refused(spark_reads, text: str):
    assert ours(text) is spark_reads(text) is None


@pytest.mark.slow
def test_random_columns_and_damaged_ones_are_read_alike(spark_reads):
    random = Random(20_261_124)
    taken = 0
    for _ in range(400):
        words = [word for number in range(random.randint(1, 3)) for word in (f"c{number}", *kind(random, 0), ",")][:-1]
        if random.random() < 0.5:
            words.pop(random.randrange(len(words)))
        text = " ".join(words)
        assert ours(text) == spark_reads(text), text
        taken += ours(text) is not None
    assert 150 < taken < 350


def kind(random: Random, depth: int) -> list[str]:
    """The words of a random type."""
    simple = ["int", "string", "timestamp", "interval day to second", "decimal ( 10 , 2 )", "varchar ( 5 )", "date"]
    which = random.randrange(10) if depth < 3 else 0
    if which < 6:
        return random.choice(simple).split()
    if which < 8:
        return ["array", "<", *kind(random, depth + 1), ">"]
    if which < 9:
        return ["map", "<", *kind(random, depth + 1), ",", *kind(random, depth + 1), ">"]
    return ["struct", "<", "x", ":", *kind(random, depth + 1), ",", "y", *kind(random, depth + 1), ">"]
