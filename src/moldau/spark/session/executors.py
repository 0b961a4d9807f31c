"""Checks at the start that the executors' Python has the package. Otherwise the first task would fail with a long
traceback.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import moldau
from moldau.errors import MoldauError

if TYPE_CHECKING:
    from pyspark import SparkContext

Question = Callable[[Iterable[int]], Iterable[tuple[str, str]]]
"""A function for a task, which returns its host and an answer."""
ROUNDS = 5
"""The rounds of questions: executors that join during one round are asked in the next."""
_LOOK_EVERY_S = 0.1
_MISSING = re.compile(r"No module named '([\w.]+)'")


class ExecutorError(MoldauError):
    """The executors cannot run tasks of this package; the message is one sentence, with the command that fixes it."""


def check_executors(context: SparkContext) -> None:
    """Imports the package in every current executor. Raises ExecutorError if no executor comes in time, or if one lacks
    something or has another version."""
    known = _wait_for_one(context)
    for _ in range(ROUNDS):
        for host, found in ask_all(context, _answer):
            if found != moldau.__version__:
                raise ExecutorError(f"an executor on {host} has Moldau {found}; this machine has {moldau.__version__}")
        before, known = known, _executors(context)
        if known == before:
            return


def _wait_for_one(context: SparkContext) -> frozenset[str]:
    """Waits with a bound, unlike Spark."""
    within = context._jsc.sc().conf().getTimeAsSeconds("spark.scheduler.maxRegisteredResourcesWaitingTime", "30s")
    end_s = time.monotonic() + within
    while not (found := _executors(context)):
        if time.monotonic() > end_s:
            raise ExecutorError(
                f"{context.master} gave no executor within {within} s: does it run, and has it a worker with a free "
                "core and the memory that one needs (spark.executor.memory)?"
            )
        time.sleep(_LOOK_EVERY_S)
    return found


def _executors(context: SparkContext) -> frozenset[str]:
    ids = context._jsc.sc().getExecutorIds().mkString(",")
    return frozenset(ids.split(",")) if ids else frozenset()


def ask_all(context: SparkContext, question: Question) -> list[tuple[str, str]]:
    """The host and the answer of each executor, more than once for one with several cores. All tasks of a barrier stage
    run at once, so each free core gets one, and none is retried on another executor."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    scala = context._jsc.sc()
    slots = scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile())
    try:
        return context.parallelize(range(slots), slots).barrier().mapPartitions(question).collect()
    except Py4JJavaError as error:
        raise ExecutorError(why_no_task(str(error.java_exception))) from error


def _answer(_: Iterable[int]) -> Iterable[tuple[str, str]]:
    import socket

    import pandas  # noqa: F401 - all else that a task needs was imported by its daemon (`worker_daemon`)

    yield socket.gethostname(), moldau.__version__


def why_no_task(report: str) -> str:
    """`report`: Spark's report of a failed task."""
    found = _MISSING.search(report)
    if found is None:
        return f"the executors run no task: {report[:2_000]}"
    return (
        f"an executor has no {found[1]} in its Python: on each machine of the cluster, {sys.executable} -m pip install "
        "'.[spark]' from a clone of Moldau"
    )
