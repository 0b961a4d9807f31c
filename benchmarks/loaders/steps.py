"""Where a Spark program spends its time: its micro-batches' steps in Spark's event log, and the CPU time of its
processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from benchmarks.peers import PeerError
from moldau.spark.session.query_states import PHASES

PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"


def event_log_settings(folder: Path) -> dict[str, str]:
    """Spark's settings that make a session write its events into this folder as they come."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


def seconds_of_steps(folder: Path) -> dict[str, float]:
    """The seconds of each of `PHASES` over all batches of the newest session that wrote there. Raises PeerError if none
    did."""
    logs = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    if not logs:
        raise PeerError(f"{folder}: Spark kept no event log")
    ms = dict.fromkeys(PHASES, 0)
    for spent in durations(logs[-1]):
        for phase, names in PHASES.items():
            ms[phase] += sum(spent.get(name, 0) for name in names)
    return {f"{phase}_s": one / 1000 for phase, one in ms.items()}


def durations(log: Path) -> Iterator[dict[str, int]]:
    """The milliseconds of the parts of a trigger, by Spark's names, for each batch that had work."""
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["Event"] == PROGRESS and "addBatch" in (spent := event["progress"]["durationMs"]):
            yield spent


def cpu_seconds(pid: int) -> dict[str, float]:
    """User and system time so far of a process and its descendants, JVM and Python separately. The time of ended
    processes counts for the process that waited for them."""
    seconds = {"jvm_cpu_s": 0.0, "python_cpu_s": 0.0}
    process = psutil.Process(pid)
    for one in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            kind = "jvm_cpu_s" if one.name() == "java" else "python_cpu_s"
            seconds[kind] += times.user + times.system + times.children_user + times.children_system
    return seconds
