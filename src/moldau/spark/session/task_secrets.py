"""Checks before the first batch that tasks can read the secrets they need, such as environment variables and files."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.security import PLAIN_TEXT
from moldau.errors import KafkaError
from moldau.spark.session.connect import is_connect
from moldau.spark.session.executors import ExecutorError, ask_all, why_no_task
from moldau.transport.security import check_readable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECT_TASKS = 1_000
_ANSWER = "host string, trouble string"


def check_secrets(spark: SparkSession, accesses: Iterable[ClusterAccess]) -> None:
    """Resolves the secret references of these accesses in tasks, without connecting. Does nothing if all tasks run on
    this machine, because they have this process's environment and files. Raises ExecutorError, which names the variable
    or file."""
    asked = [access for access in dict.fromkeys(accesses) if access.security != PLAIN_TEXT]
    if not asked:
        return
    for host, trouble in _ask(spark, asked):
        if trouble:
            raise ExecutorError(
                f"a task on {host} cannot reach the cluster as this machine does: {trouble}. Tasks get the reference "
                "of a secret, and no secret: each machine of Spark needs this variable or file"
            )


def _ask(spark: SparkSession, asked: Collection[ClusterAccess]) -> Iterable[tuple[str, str]]:
    if not is_connect(spark):
        context = spark.sparkContext
        return () if context._jsc.sc().isLocal() else ask_all(context, partial(_answer, asked))
    from pyspark.errors import PySparkException

    try:
        return spark.range(_CONNECT_TASKS).mapInArrow(partial(_answer_rows, asked), _ANSWER).collect()
    except PySparkException as error:
        raise ExecutorError(why_no_task(str(error))) from error


def _answer(asked: Collection[ClusterAccess], _: Iterable[int]) -> Iterable[tuple[str, str]]:
    yield socket.gethostname(), _trouble(asked)


def _answer_rows(asked: Collection[ClusterAccess], _: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pylist([{"host": socket.gethostname(), "trouble": _trouble(asked)}])


def _trouble(asked: Collection[ClusterAccess]) -> str:
    """Empty without trouble."""
    try:
        for access in asked:
            check_readable(access)
    except KafkaError as error:
        return str(error)
    return ""
