"""What is told of a failure that Spark reports in many lines."""

from __future__ import annotations

import pytest

from moldau.products.pipelines.core.failures import flow_that_failed, line_that_failed, what_failed
from moldau.products.pipelines.core.plan import make_flow

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
