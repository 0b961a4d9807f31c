"""A pipeline that runs until SIGTERM, and prints its memory: `python -m tests.soak.pipeline_run SPEC`.

Each line of the output is a Sample, as JSON.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil
from rich.console import Console

from moldau.products.pipelines.running.runner import run_pipeline
from moldau.products.pipelines.spec.spec import load_spec
from moldau.spark.queries.supervised_state import SupervisedState

SAMPLE_S = 20.0
COLLECTION_S = 4.0


class Sample(msgspec.Struct, frozen=True):
    """`heap`: bytes of the JVM's heap in use, right after the full collection with the smallest result since the last
    sample: a collection in the middle of a batch finds the rows of the batch (up to a third more, without a trend).
    `workers`: bytes of the child Python processes, shared ones counted once (PSS). `records`: read by the pipeline."""

    second: float
    heap: int
    workers: int
    records: int


class Sampler:
    """Observes the run of a pipeline."""

    def __init__(self) -> None:
        self._began = self._last = self._last_collection = time.monotonic()
        self._least_heap: int | None = None

    def show(self, states: Sequence[SupervisedState]) -> None:
        now, jvm = time.monotonic(), _jvm()
        if now - self._last_collection >= COLLECTION_S:
            self._last_collection = now
            heap = _collected(jvm)
            self._least_heap = heap if self._least_heap is None else min(heap, self._least_heap)
        if now - self._last < SAMPLE_S or self._least_heap is None:
            return
        self._last = now
        workers = _workers_bytes(jvm.java.lang.ProcessHandle.current().pid())
        sample = Sample(now - self._began, self._least_heap, workers, sum(state.records_read for state in states))
        self._least_heap = None
        print(msgspec.json.encode(sample).decode(), flush=True)


def _jvm() -> Any:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    return session._jvm


def _collected(jvm: Any) -> int:
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    used: int = runtime.totalMemory() - runtime.freeMemory()
    return used


def _workers_bytes(jvm: int) -> int:
    """Workers are forks of the session's host (`spark.session.worker_host`), which is a child of this process."""
    found = 0
    for process in psutil.Process().children(recursive=True):
        if process.pid == jvm:
            continue
        try:
            found += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue  # ended meanwhile
    return found


if __name__ == "__main__":
    with open(os.devnull, "w") as nowhere:
        run_pipeline(load_spec(Path(sys.argv[1])), console=Console(file=nowhere), onlookers=[Sampler()])
