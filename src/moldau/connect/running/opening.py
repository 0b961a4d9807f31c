"""The job of a light task."""

from __future__ import annotations

from moldau.connect.running.arrow import keep_pandas_out
from moldau.connect.running.connector import connector_of
from moldau.connect.running.jobs import Job
from moldau.connect.running.protocol import Commands, Task
from moldau.connect.running.sink import SinkJob
from moldau.connect.running.source import SourceJob


def light_job(task: Task, commands: Commands) -> tuple[Job, float]:
    """The job of a task, and the seconds between two looks. Raises ConfigError, and what the connector raises."""
    keep_pandas_out()
    used = connector_of(task)
    job_class = SinkJob if used.is_sink else SourceJob
    return job_class(task, used, commands), used.interval_s
