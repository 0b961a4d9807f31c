"""The job of a light task."""

from __future__ import annotations

from moldau.connect.running.arrow import keep_pandas_out
from moldau.connect.running.arrow_path import arrow_writer
from moldau.connect.running.connector import Connector, connector_of
from moldau.connect.running.jobs import Job
from moldau.connect.running.protocol import Commands, Task
from moldau.connect.running.sink import SinkJob
from moldau.connect.running.source import SourceJob


def light_job(task: Task, commands: Commands) -> tuple[Job, float]:
    """The job of a task, and the seconds between two looks. Raises ConfigError, and what the connector raises."""
    used = connector_of(task)
    keep_pandas_out()  # its module may have imported pyarrow
    job = _sink(task, used, commands) if used.is_sink else SourceJob(task, used, commands)
    return job, used.interval_s


def _sink(task: Task, used: Connector, commands: Commands) -> SinkJob:
    found = arrow_writer(task, used)
    if found is None:
        return SinkJob(task, used, commands)
    from moldau.connect.running.arrow_sink import ArrowSinkJob

    return ArrowSinkJob(task, used, commands, *found)
