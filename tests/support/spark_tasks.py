"""A task of the runner `spark` in this process: its session is used, so that a test starts no JVM for each task."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from pyspark.taskcontext import TaskContext

from moldau.client.protocol.access import ClusterAccess
from moldau.connect.running.loop import run
from moldau.connect.running.protocol import Commands, Reporter, Task
from moldau.products.connect.on_spark import sink, source
from moldau.products.connect.on_spark.opening import spark_job
from moldau.spark import QUICK_START
from moldau.testing import Cluster
from moldau.testing.connect import GROUP_ID, OFFSETS_TOPIC
from moldau.transport.librdkafka import librdkafka_settings

Line = dict[str, Any]
QUICK = {"runner": "spark", **QUICK_START}
"""Of a connector with a JVM of its own, for some seconds."""
LOADED = (sink, source, *(one.load() for one in entry_points(group="moldau.connectors")))
"""At once: CPython 3.11 may fail to compile a module that pytest rewrites deep in other calls."""


@dataclass
class Reports:
    """A stream for the lines of a task. `on_line`: is called with each."""

    on_line: Callable[[Line], None]
    lines: list[Line] = field(default_factory=list)

    def write(self, text: str) -> int:
        for line in text.splitlines():
            self.lines.append(json.loads(line))
            self.on_line(self.lines[-1])
        return len(text)

    def flush(self) -> None:
        """Each line is complete when it is written."""

    @property
    def states(self) -> list[str]:
        return [one["state"] for one in self.lines if "state" in one]

    @property
    def progress(self) -> Line:
        return next((one["progress"] for one in reversed(self.lines) if "progress" in one), {})

    @property
    def trace(self) -> str:
        return next((one["trace"] for one in reversed(self.lines) if "trace" in one), "")


def run_on_spark(cluster: Cluster, config: Mapping[str, str], access: ClusterAccess | None = None) -> Reports:
    """Runs a task until it is idle, has finished, or has failed. `access`: of a login whose secret has a reference."""
    own = access or cluster.access()
    task = Task(
        connector=config["name"],
        slot=0,
        slots=1,
        config={**config, "runner": "spark"},
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=GROUP_ID,
        offsets_topic=OFFSETS_TOPIC,
        client={name: str(value) for name, value in librdkafka_settings(own).items()},
        access=own.properties(),
    )
    reading, writing = os.pipe()
    orders = os.fdopen(writing, "w")

    def stop_when_idle(line: Line) -> None:
        if line.get("progress", {}).get("idle"):
            orders.close()

    with os.fdopen(reading) as given, orders:
        reports = Reports(stop_when_idle)
        try:
            run(task, Commands(given), Reporter(reports), spark_job)
        finally:
            TaskContext._setTaskContext(None)  # a process of tasks has one; this one has many
    return reports
