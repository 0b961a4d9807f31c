"""Connectors as the workers' REST interface of Kafka Connect describes them, in what pages show."""

from __future__ import annotations

import msgspec

from moldau.client.protocol.secrets import may_be_secret

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
        """The last line of the trace, which has the error."""
        return self.trace.strip().rpartition("\n")[2]


class TaskState(ConnectorState, frozen=True, kw_only=True):
    id: int


class ConnectorStatus(msgspec.Struct, frozen=True):
    name: str
    connector: ConnectorState
    tasks: tuple[TaskState, ...] = ()
    type: str = ""


class ConnectorInfo(msgspec.Struct, frozen=True):
    name: str
    config: dict[str, str | None]
    type: str | None = None


class Connector(msgspec.Struct, frozen=True):
    info: ConnectorInfo
    status: ConnectorStatus

    @property
    def state(self) -> str:
        """That of the connector, or FAILED if a task has failed: Kafka Connect leaves the connector RUNNING then."""
        has_failed = any(task.state == "FAILED" for task in self.status.tasks)
        return "FAILED" if has_failed else self.status.connector.state

    @property
    def running(self) -> int:
        """How many tasks run."""
        return sum(task.state == "RUNNING" for task in self.status.tasks)

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
    def group(self) -> str | None:
        """The consumer group of a sink."""
        kind = self.info.type or self.status.type
        return f"connect-{self.info.name}" if kind == "sink" else None


class ConnectorOffset(msgspec.Struct, frozen=True):
    """A place of a source, or of a sink in a partition."""

    partition: dict[str, object]
    offset: dict[str, object] | None = None
