"""The connector of a task, from its configuration, and the job of a light task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict, DataSource
from pyspark.sql.types import StructType

from moldau.connect.configuration import parse
from moldau.connect.contract import shared_settings
from moldau.connect.contract.ddl import parse_ddl
from moldau.connect.contract.describing import Description, Reading, chosen_reading, describe, is_sink_config
from moldau.connect.contract.finding import find
from moldau.connect.running.arrow import keep_pandas_out
from moldau.connect.running.jobs import Job
from moldau.connect.running.protocol import Commands, Task
from moldau.connect.running.sink import SinkJob
from moldau.connect.running.source import SourceJob


@dataclass(frozen=True, slots=True)
class Connector:
    """`values`: the settings that every connector has."""

    found: type[DataSource]
    description: Description
    is_sink: bool
    values: dict[str, Any]

    def new(self, task: Task) -> DataSource:
        """An object of the class, with the configuration of the task."""
        return self.found(CaseInsensitiveDict(task.config))

    def reading(self) -> Reading:
        """Of a source. Raises ConfigError."""
        return chosen_reading(self.found, self.values[shared_settings.ROW_READER])

    def schema(self, source: DataSource) -> StructType:
        """The schema to ask a source for. Raises ConfigError, DdlError, and what the class raises."""
        given = self.values[shared_settings.ROW_SCHEMA] or source.schema()
        return given if isinstance(given, StructType) else parse_ddl(given)

    @property
    def interval_s(self) -> float:
        """Between two looks of a task that has nothing to do."""
        return float(self.values[shared_settings.POLL_INTERVAL]) / 1000


def connector_of(task: Task) -> Connector:
    """Raises ConfigError, and what the module of the class raises."""
    found = find(task.config.get(shared_settings.CLASS, ""))
    description = describe(found)
    is_sink = is_sink_config(description, task.config)
    values = parse(shared_settings.all_settings(not is_sink, is_sink, description.settings or ()), task.config)
    return Connector(found, description, is_sink, values)


def light_job(task: Task, commands: Commands) -> tuple[Job, float]:
    """The job of a task, and the seconds between two looks. Raises ConfigError, and what the connector raises."""
    keep_pandas_out()
    used = connector_of(task)
    job_class = SinkJob if used.is_sink else SourceJob
    return job_class(task, used.found, used.description, used.values, commands), used.interval_s
