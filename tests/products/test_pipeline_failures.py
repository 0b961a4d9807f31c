"""What is told of a failure that Spark reports in many lines."""

from __future__ import annotations

from moldau.products.pipelines.core.failures import what_failed

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
