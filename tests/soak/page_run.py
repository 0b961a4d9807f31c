"""A page that runs until SIGTERM, and says what memory it holds: `python -m tests.soak.page_run PAGE`.

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

from moldau.products.pipelines.page.page import load_page
from moldau.products.pipelines.running.progress import PipelineState
from moldau.products.pipelines.running.runner import run_pipeline

SAMPLE_S = 20.0


class Sample(msgspec.Struct, frozen=True):
    """`heap`: bytes of the JVM's heap in use, right behind a full collection. `workers`: bytes of the Python processes
    below this one, what they share counted once (PSS). `records`: what the page has read."""

    second: float
    heap: int
    workers: int
    records: int


class Sampler:
    """Sees the run of a page."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()

    def show(self, states: Sequence[PipelineState]) -> None:
        now = time.monotonic()
        if now - self._last < SAMPLE_S:
            return
        self._last = now
        jvm = _jvm()
        jvm.java.lang.System.gc()
        runtime = jvm.java.lang.Runtime.getRuntime()
        heap = runtime.totalMemory() - runtime.freeMemory()
        workers = _workers_bytes(jvm.java.lang.ProcessHandle.current().pid())
        sample = Sample(now - self._began, heap, workers, sum(state.records_read for state in states))
        print(msgspec.json.encode(sample).decode(), flush=True)


def _jvm() -> Any:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    return session._jvm


def _workers_bytes(jvm: int) -> int:
    """Workers are forks of the session's host (`moldau.spark.worker_host`), which is a child of this process."""
    found = 0
    for process in psutil.Process().children(recursive=True):
        if process.pid == jvm:
            continue
        try:
            found += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue  # ended in the meantime
    return found


if __name__ == "__main__":
    with open(os.devnull, "w") as nowhere:
        run_pipeline(load_page(Path(sys.argv[1])), console=Console(file=nowhere), onlookers=[Sampler()])
