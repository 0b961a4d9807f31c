"""The job of a task on Spark."""

from __future__ import annotations

from moldau.connect.running.connector import connector_of
from moldau.connect.running.jobs import Job
from moldau.connect.running.protocol import Commands, Task
from moldau.products.connect.on_spark.session import require_spark


def spark_job(task: Task, commands: Commands) -> tuple[Job, float]:
    """The job, and the seconds between two looks. Raises MissingExtraError, ConfigError, AccessError, and what the
    connector raises."""
    require_spark()
    from moldau.products.connect.on_spark.sink import SparkSink
    from moldau.products.connect.on_spark.source import SparkSource

    used = connector_of(task)
    job_class = SparkSink if used.is_sink else SparkSource
    return job_class(task, used, commands), used.interval_s
