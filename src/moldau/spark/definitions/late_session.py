"""The session that a pipeline's module sees as `spark` and `SparkSession.active()`.

It works inside flow functions only, where it is the session of the run.

A column needs a session too, but `create_auto_cdc_flow` takes columns, and outside of any function: there `col` and
`expr` give a `ColumnText`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pyspark import SparkContext, errors
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.column import Column

from moldau.errors import MoldauError

NO_SPARK = (
    "this needs Spark, which is not there while the module is read: move it into the function of a flow, give a type "
    "as a value, such as DoubleType(), in place of its name, or a column of create_auto_cdc_flow as SQL: "
    'expr("op = \'d\'") for col("op") == "d"'
)
_session: ContextVar[SparkSession] = ContextVar("session of a flow's function")


@contextmanager
def session_is(spark: SparkSession) -> Iterator[None]:
    """Within it, that of the module is this one."""
    token = _session.set(spark)
    try:
        yield
    finally:
        _session.reset(token)


class LateSession:
    """Stands for the session in a module."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_session_of_a_flow(), name)

    @property
    def readStream(self) -> _StreamReader:  # noqa: N802 - Spark's name
        return _StreamReader()


class _StreamReader:
    """A stream is read by its name as any view is: Spark's own `readStream.table` refuses the records of a test."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_session_of_a_flow().readStream, name)

    def table(self, tableName: str) -> DataFrame:  # noqa: N803 - Spark's name
        return _session_of_a_flow().table(tableName)


def _session_of_a_flow() -> SparkSession:
    session = _session.get(None)
    if session is None:
        raise MoldauError(NO_SPARK)
    return session


@contextmanager
def no_session() -> Iterator[None]:
    """What asks for the session gets the one that stands for it: nothing starts Spark."""
    late = LateSession()

    def give_late(*_: object) -> LateSession:
        return late

    with replaced(
        {
            (SparkSession, "active"): give_late,
            (SparkSession, "getActiveSession"): give_late,
            (SparkSession.Builder, "getOrCreate"): give_late,
            # a session that runs already is not the module's either
            (SparkContext, "_active_spark_context"): None,
            # a function of Spark asks the session once whether to note where it was called
            (errors.utils, "_enable_debugging_cache"): False,
        }
    ):
        yield


class ColumnText(Column):
    """A column of which nothing is known but the text. `line`: of the module."""

    def __init__(self, function: str, text: str, line: int) -> None:
        self.function = function
        self.text = text
        self.line = line

    @property
    def _jc(self) -> Any:
        """What all that Spark does with a column begins with."""
        raise MoldauError(NO_SPARK)


@contextmanager
def replaced(instead: Mapping[tuple[Any, str], object]) -> Iterator[None]:
    """Within it, these names of classes and modules stand for other values."""
    before = {way: vars(way[0])[way[1]] for way in instead}
    for (owner, name), value in instead.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for (owner, name), value in before.items():
            setattr(owner, name, value)
