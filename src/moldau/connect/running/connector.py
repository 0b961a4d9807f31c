"""The connector of a task, from its configuration."""

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
from moldau.connect.running.protocol import Task


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
    own = description.settings or ()
    values = parse((*shared_settings.shared(not is_sink, is_sink, own), *own), task.config)
    return Connector(found, description, is_sink, values)
