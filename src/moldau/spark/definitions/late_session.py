"""The session that a pipeline's module sees as `spark` and `SparkSession.active()`.

It works inside flow functions only, where it is the session of the run.

Columns need a session too, but `create_auto_cdc_flow` takes columns outside of any function. There `col` and `expr`
return a `ColumnText`.
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
    """In this context, it is the module's session."""
    token = _session.set(spark)
    try:
        yield
    finally:
        _session.reset(token)


class LateSession:
    """The session that a module sees."""

    def __getattr__(self, name: str) -> Any:
        return getattr(session_of_flow(), name)

    @property
    def readStream(self) -> _StreamReader:  # noqa: N802 - Spark's name
        return _StreamReader()


class _StreamReader:
    """Reads a stream by name like any view, because Spark's own `readStream.table` rejects the records of a test."""

    def __getattr__(self, name: str) -> Any:
        return getattr(session_of_flow().readStream, name)

    def table(self, tableName: str) -> DataFrame:  # noqa: N803 - Spark's name
        return session_of_flow().table(tableName)


def session_of_flow() -> SparkSession:
    """The session in which a flow's function runs. Raises MoldauError outside of one."""
    session = _session.get(None)
    if session is None:
        raise MoldauError(NO_SPARK)
    return session


@contextmanager
def no_session() -> Iterator[None]:
    """In this context, requests for the session get a LateSession, so nothing starts Spark."""
    late = LateSession()

    def give_late(*_: object) -> LateSession:
        return late

    with replaced(
        {
            (SparkSession, "active"): give_late,
            (SparkSession, "getActiveSession"): give_late,
            (SparkSession.Builder, "getOrCreate"): give_late,
            # hides a session that already runs
            (SparkContext, "_active_spark_context"): None,
            # one of Spark's functions asks the session once whether to record call sites
            (errors.utils, "_enable_debugging_cache"): False,
        }
    ):
        yield


class ColumnText(Column):
    """A column of which only the text is known. `line`: of the module."""

    def __init__(self, function: str, text: str, line: int) -> None:
        self.function = function
        self.text = text
        self.line = line

    @property
    def _jc(self) -> Any:
        """Every operation of Spark on a column begins with this attribute."""
        raise MoldauError(NO_SPARK)


@contextmanager
def replaced(instead: Mapping[tuple[Any, str], object]) -> Iterator[None]:
    """In this context, these attributes of classes and modules have other values."""
    before = {way: vars(way[0])[way[1]] for way in instead}
    for (owner, name), value in instead.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for (owner, name), value in before.items():
            setattr(owner, name, value)
