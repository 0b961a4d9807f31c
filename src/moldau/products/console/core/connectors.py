"""Connectors as the workers' REST interface of Kafka Connect describes them, in what pages show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from moldau.client.protocol.secrets import may_be_secret
from moldau.products.connect.core.progress import TaskProgress
from moldau.products.connect.core.traces import problem_of

Number = TypeVar("Number", int, float)

HIDDEN = "[hidden]"
TONES = {
    "RUNNING": "good",
    "PAUSED": "idle",
    "STOPPED": "idle",
    "UNASSIGNED": "busy",
    "RESTARTING": "busy",
    "FAILED": "bad",
}
"""Colours of the states of connectors and tasks."""


class ConnectorState(msgspec.Struct, frozen=True):
    """`trace`: of the failure."""

    state: str
    worker_id: str = ""
    trace: str = ""

    @property
    def problem(self) -> str:
        """The error of the trace, with its record."""
        return problem_of(self.trace)


class TaskState(ConnectorState, frozen=True, kw_only=True):
    id: int


class ConnectorStatus(msgspec.Struct, frozen=True):
    name: str
    connector: ConnectorState
    tasks: tuple[TaskState, ...] = ()
    type: str = ""


class ToldProgress(msgspec.Struct, frozen=True):
    """Of a task; None before its start, or while its worker does not answer."""

    id: int
    progress: TaskProgress | None = None


class ConnectorInfo(msgspec.Struct, frozen=True):
    name: str
    config: dict[str, str | None]
    type: str | None = None


class Connector(msgspec.Struct, frozen=True):
    """`progress`: of a worker of Moldau; those of Apache Kafka tell none."""

    info: ConnectorInfo
    status: ConnectorStatus
    progress: tuple[ToldProgress, ...] = ()

    @property
    def state(self) -> str:
        """That of the connector, or FAILED if a task has failed: Kafka Connect leaves the connector RUNNING then."""
        has_failed = any(task.state == "FAILED" for task in self.status.tasks)
        return "FAILED" if has_failed else self.status.connector.state

    @property
    def running(self) -> int:
        """How many tasks run."""
        return sum(task.state == "RUNNING" for task in self.status.tasks)

    def progress_of(self, task: int) -> TaskProgress | None:
        return next((one.progress for one in self.progress if one.id == task), None)

    @property
    def records(self) -> int | None:
        """Of all tasks, since the start of their processes."""
        return _sum(None if one is None else one.records for one in self._told)

    @property
    def records_per_second(self) -> float | None:
        return _sum(None if one is None else one.records_per_second for one in self._told)

    @property
    def lag(self) -> int | None:
        return _sum(None if one is None else one.lag for one in self._told)

    @property
    def _told(self) -> list[TaskProgress | None]:
        return [one.progress for one in self.progress]

    @property
    def problem(self) -> str:
        """The first error of the connector or a task."""
        states = (self.status.connector, *self.status.tasks)
        return next((one.problem for one in states if one.problem), "")

    @property
    def shown_config(self) -> list[tuple[str, str]]:
        """In the order of names. The values of secrets are hidden, but references are not."""
        found = sorted((name, value or "") for name, value in self.info.config.items())
        hidden = {name for name, value in found if may_be_secret(name) and not value.startswith("${")}
        return [(name, HIDDEN if name in hidden else value) for name, value in found]

    @property
    def dead_letters_topic(self) -> str:
        """Empty without one."""
        return self.info.config.get("errors.deadletterqueue.topic.name") or ""

    @property
    def group(self) -> str | None:
        """The consumer group of a sink."""
        kind = self.info.type or self.status.type
        return f"connect-{self.info.name}" if kind == "sink" else None


class ConnectorOffset(msgspec.Struct, frozen=True):
    """A place of a source, or of a sink in a partition."""

    partition: dict[str, object]
    offset: dict[str, object] | None = None


def _sum(values: Iterable[Number | None]) -> Number | None:
    """Of the values that are known; None without any."""
    known = [one for one in values if one is not None]
    return sum(known[1:], known[0]) if known else None
