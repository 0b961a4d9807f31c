"""The message for a failure that Spark reports in many lines."""

from __future__ import annotations

import pytest

from moldau.products.pipelines.core.failures import (
    MOST_TRIES,
    Offsets,
    error_of_values,
    first_failing,
    flow_that_failed,
    line_that_failed,
    what_failed,
)
from moldau.products.pipelines.core.plan import make_flow
from moldau.types import TopicPartition

UNKNOWN_COLUMN = """\
[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `usr` cannot be resolved. SQLSTATE: 42703; line 1 pos 7;
'Project ['usr]
+- ~SubqueryAlias source
   +- View (`source`, [user#197])
      :- ~Project [value#183.user AS user#197]
"""

OF_A_TARGET = """\
An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/lib/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/lib/table.py", line 141, in write
    self._make_table(batch)
pyiceberg.exceptions.ValidationError: the table is not what it was

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""


def test_the_query_that_spark_draws_behind_its_sentence_is_left_out():
    assert what_failed(UNKNOWN_COLUMN) == UNKNOWN_COLUMN.splitlines()[0].rstrip(";")


def test_lines_that_begin_like_a_branch_alone_are_no_drawing():
    assert what_failed("+- first\nsecond") == "+- first\nsecond"


def test_of_a_trace_of_python_its_error_is_told():
    assert what_failed(OF_A_TARGET) == "pyiceberg.exceptions.ValidationError: the table is not what it was"
    worker = f"org.apache.spark.api.python.PythonException: {OF_A_TARGET}".replace("pyiceberg.exceptions.", "")
    assert what_failed(worker) == "ValidationError: the table is not what it was"


def test_a_sentence_of_ours_is_told_whether_spark_shows_its_trace_or_not():
    for report in (
        "[PYTHON_DATA_SOURCE_ERROR] Failed to plan: Traceback (most recent call last):\n  File x\n"
        "moldau.spark.source.offsets.StartError: topic 't' does not exist\nSQLSTATE: 38000",
        "[PYTHON_DATA_SOURCE_ERROR] Failed to plan: moldau.spark.source.offsets.StartError: topic 't' does not exist\n"
        "SQLSTATE: 38000",
    ):
        assert what_failed(report) == "topic 't' does not exist"
    assert what_failed("[X] the group moldau.shop: no offsets") == "[X] the group moldau.shop: no offsets"


IN_SQL = """\
pyspark.errors.exceptions.captured.ArithmeticException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012
== SQL (line 2, position 3) ==
{line}
  ^^^^^^

"""
INVERSE = make_flow("inverse", "select n,\n  10 / n as inverse\nfrom big", place="flows.inverse", line=8)
BIG = make_flow("big", "select n\nfrom numbers", place="flows.big", line=7)


@pytest.mark.parametrize("line", ["  10 / n as inverse", "...10 / n..."])
def test_the_flow_is_found_whose_statement_has_the_line_that_spark_names(line: str):
    report = IN_SQL.format(line=line)
    assert flow_that_failed(report, [BIG, INVERSE]) == (INVERSE, 2, line.strip(" ."))
    assert flow_that_failed(report, [BIG]) is None
    assert flow_that_failed(report, [INVERSE, make_flow("again", INVERSE.text, place="flows.again")]) is None
    assert flow_that_failed(UNKNOWN_COLUMN, [BIG, INVERSE]) is None


def test_of_a_module_the_last_line_is_told_that_a_trace_or_an_expression_names():
    trace = OF_A_TARGET.replace("/lib/table.py", "/pages/shop.py")
    assert line_that_failed(trace, "/pages/shop.py") == 141
    assert line_that_failed(trace, "/pages/other.py") is None
    report = '== DataFrame ==\n"divide" was called from\n/pages/shop.py:12\n'
    assert line_that_failed(trace + report, "/pages/shop.py") == 12


CAST = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: [CAST_INVALID_INPUT] The value 'abc' of the type "STRING" \
cannot be cast to "INT" because it is malformed. SQLSTATE: 22018
== SQL (line 1, position 8) ==
select cast(v as int)
SQLSTATE: XXKST

JVM stacktrace:
org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query [id = 1] terminated with exception
Caused by: org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value SQLSTATE: 22018
"""
PARSED = """\
An error occurred while calling o218.save.
: org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records: [null].
Parse Mode: FAILFAST. SQLSTATE: 22023
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.malformed(QueryExecutionErrors.scala:1617)
"""
OF_A_WORKER = "An exception was thrown from the Python worker:\n" + OF_A_TARGET[OF_A_TARGET.index("Traceback") :]
WRAPPED = "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the function. SQLSTATE: 39000\n"
LOST = "[SCHEMA_NOT_FOUND] The schema `s` cannot be found. SQLSTATE: 42704"


@pytest.mark.parametrize(
    ("report", "error"),
    [
        (CAST, "CAST_INVALID_INPUT"),
        (PARSED, "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION"),
        ("[USER_RAISED_EXCEPTION] no number SQLSTATE: P0001", "USER_RAISED_EXCEPTION"),
        (WRAPPED + OF_A_WORKER, "pyiceberg.exceptions.ValidationError"),
        (WRAPPED + OF_A_WORKER.replace("pyiceberg.exceptions.ValidationError", "KeyError"), "KeyError"),
        (WRAPPED + OF_A_WORKER.replace("pyiceberg.exceptions.ValidationError", "ConnectionResetError"), None),
        (WRAPPED + OF_A_WORKER.replace("pyiceberg.exceptions.ValidationError", "moldau.errors.KafkaError"), None),
        (WRAPPED + OF_A_TARGET, None),
        (LOST, None),
        ("No space left on device", None),
    ],
)
def test_an_error_is_told_apart_that_the_values_of_a_record_can_cause(report: str, error: str | None):
    assert error_of_values(report) == error


class Batch:
    """Fails when one of its bad records is read; counts its calls, and the number of offsets."""

    def __init__(self, *bad: tuple[int, int], most: int = 2**62) -> None:
        self.bad = [(TopicPartition("t", number), offset) for number, offset in bad]
        self.tries = self.read = 0
        self.most = most

    def fails(self, offsets: Offsets) -> bool:
        self.tries += 1
        size = sum(end - first for first, end in offsets.values())
        assert size > 0
        self.read += size
        bad = [one for one, at in self.bad if one in offsets and offsets[one][0] <= at < offsets[one][1]]
        return bool(bad) and size <= self.most


T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
RANGES = {T2: (0, 5), T0: (10, 17), T1: (3, 3)}


@pytest.mark.parametrize("offset", range(10, 17))
def test_the_one_record_that_fails_is_found_at_each_offset(offset: int):
    assert first_failing(RANGES, Batch((0, offset)).fails) == (T0, offset)
    assert first_failing({T0: (offset, offset + 1)}, Batch((0, offset)).fails) == (T0, offset)


def test_of_several_records_that_fail_the_first_by_partition_and_offset_is_found():
    assert first_failing(RANGES, Batch((2, 0), (2, 4)).fails) == (T2, 0)
    assert first_failing(RANGES, Batch((2, 1), (0, 16), (0, 15)).fails) == (T0, 15)


def test_a_batch_that_fails_no_more_or_by_no_single_record_names_none():
    assert first_failing(RANGES, Batch().fails) is None
    assert first_failing({}, Batch().fails) is None
    together = Batch((0, 12), most=1_000)
    assert first_failing(RANGES, lambda offsets: together.fails(offsets) and len(offsets) > 1) is None


def test_a_search_has_a_bound_for_its_tries_and_reads_the_batch_about_twice():
    batch = Batch((0, 999_999))
    assert first_failing({T0: (0, 1_000_000)}, batch.fails) == (T0, 999_999)
    assert batch.tries <= 22
    assert batch.read <= 2_000_001
    largest = Batch((0, 2**38 - 1))
    assert first_failing({T0: (0, 2**38)}, largest.fails) == (T0, 2**38 - 1)
    assert largest.tries == MOST_TRIES
    larger = Batch((0, 0))
    assert first_failing({T0: (0, 2**63)}, larger.fails) is None
    assert larger.tries < MOST_TRIES


def of_java(*errors: str) -> str:
    """Spark's report of a failed Java call: the error of the call, and its cause."""
    first, *causes = errors
    trace = "\n\tat org.apache.spark.Call.make(Call.scala:1)\n"
    bridge = "py4j.protocol.Py4JJavaError: An error occurred while calling o104.collectToPython.\n"
    python = 'Traceback (most recent call last):\n  File "a.py", line 1, in write\n    raise Py4JJavaError(\n'
    return (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: "
        + python
        + bridge
        + (f": {first}{trace}" + "".join(f"Caused by: {cause}{trace}\t... 1 more\n" for cause in causes))
    )


UNREAD = (
    "org.apache.spark.SparkException: [FAILED_READ_FILE.{}] Encountered error while reading file {}.  SQLSTATE: KD001"
)


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (
            of_java(
                UNREAD.format("NO_HINT", "file:///in/x.parquet"),
                "org.apache.parquet.hadoop.BadConfigurationException: Class org.apache.hadoop.io.compress.BrotliCodec "
                "was not found",
                "java.lang.ClassNotFoundException: org.apache.hadoop.io.compress.BrotliCodec",
            ),
            "the file /in/x.parquet cannot be read: it is compressed with Brotli, for which Spark has no codec: write "
            "it with zstd, snappy or gzip",
        ),
        (
            of_java(
                UNREAD.format("NO_HINT", "file:///in/log-2026-01-01T00:00:00.csv"),
                "java.lang.IllegalArgumentException: java.net.URISyntaxException: Relative path in absolute URI: "
                ".log-2026-01-01T00:00:00.csv.crc",
            ),
            "the file /in/log-2026-01-01T00:00:00.csv cannot be read: Spark takes no colon in the name "
            "`log-2026-01-01T00:00:00.csv` here: rename it, or name its directory in place of a pattern",
        ),
        (
            of_java(UNREAD.format("NO_HINT", "file:/in/x.gz"), "java.io.EOFException: Unexpected end of input stream"),
            "the file /in/x.gz cannot be read: Unexpected end of input stream (java.io.EOFException)",
        ),
        (
            of_java(
                "org.apache.spark.SparkException: [FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Encountered error while "
                "reading file file:/in/x.parquet. Could not read footer.\nIf it is, ignore it. SQLSTATE: KD001",
                "java.lang.RuntimeException: file:/in/x.parquet is not a Parquet file. Expected magic number",
            ),
            "the file /in/x.parquet cannot be read: it is no Parquet file, or not a whole one",
        ),
        (
            of_java(
                "org.apache.spark.SparkException: [FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered "
                "error while reading file file:///in/m.parquet. Data type mismatches when reading Parquet column [a]. "
                "Expected Spark type bigint, actual Parquet type BINARY. SQLSTATE: KD001",
                "org.apache.spark.Misfit: column: [a], physicalType: BINARY, logicalType: bigint",
            ),
            "the file /in/m.parquet cannot be read: Data type mismatches when reading Parquet column [a]. Expected "
            "Spark type bigint, actual Parquet type BINARY",
        ),
        (
            of_java("java.lang.IllegalStateException: outer", "java.nio.file.NoSuchFileException: /gone/1.delta"),
            "/gone/1.delta (java.nio.file.NoSuchFileException)",
        ),
        (of_java("java.lang.IllegalStateException: alone"), "alone (java.lang.IllegalStateException)"),
    ],
)
def test_an_error_of_java_is_a_sentence_with_its_cause_and_file(report: str, sentence: str):
    assert what_failed(report) == sentence
