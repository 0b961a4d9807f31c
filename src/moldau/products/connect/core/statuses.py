"""The states of connectors and tasks, folded from the topic of statuses in Kafka Connect's form.

Keys are texts, values are JSON, and a tombstone deletes:

    status-connector-NAME              {"state", "trace", "worker_id", "generation", "version"}
    status-task-NAME-0                 the same
    status-topic-TOPIC:connector-NAME  {"topic": {"name", "connector", "task", "discoverTimestamp"}}
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from moldau.products.connect.core.configs import Record

K = TypeVar("K")

_CONNECTOR, _TASK, _TOPIC = "status-connector-", "status-task-", "status-topic-"
_OF = ":connector-"

UNASSIGNED, RUNNING, PAUSED, STOPPED = "UNASSIGNED", "RUNNING", "PAUSED", "STOPPED"
FAILED, RESTARTING = "FAILED", "RESTARTING"


class Status(msgspec.Struct, frozen=True):
    """`trace`: of FAILED. `generation`: of the worker's share of the tasks."""

    state: str
    trace: str | None
    worker_id: str
    generation: int = 0
    version: str | None = None


class _UsedTopic(msgspec.Struct, frozen=True):
    name: str
    connector: str
    task: int
    discoverTimestamp: int  # noqa: N815 - the name in the topic


class _TopicValue(msgspec.Struct, frozen=True):
    topic: _UsedTopic


class StatusState:
    """Not thread-safe."""

    def __init__(self) -> None:
        self.connectors: dict[str, Status] = {}
        self.tasks: dict[tuple[str, int], Status] = {}
        self.topics: dict[str, dict[str, int]] = {}
        """For each connector its topics, each with the task that has found it."""

    def apply(self, key: bytes, value: bytes | None) -> None:
        """A record that cannot be read is passed over."""
        text = key.decode(errors="replace")
        try:
            if text.startswith(_TOPIC):
                self._topic(text.removeprefix(_TOPIC), value)
            elif text.startswith(_CONNECTOR):
                _keep(self.connectors, text.removeprefix(_CONNECTOR), value)
            elif text.startswith(_TASK):
                name, _, number = text.removeprefix(_TASK).rpartition("-")
                if number.isdigit():
                    _keep(self.tasks, (name, int(number)), value)
        except msgspec.DecodeError:
            return

    def tasks_of(self, name: str) -> dict[int, Status]:
        """By the number of the task, in order."""
        return {task: status for (one, task), status in sorted(self.tasks.items()) if one == name}

    def _topic(self, rest: str, value: bytes | None) -> None:
        topic, _, name = rest.partition(_OF)
        if value is None:
            self.topics.get(name, {}).pop(topic, None)
        else:
            found = msgspec.json.decode(value, type=_TopicValue).topic
            self.topics.setdefault(name, {})[topic] = found.task


TASK_STATUS = _TASK.encode()
"""Keys of tasks begin with it."""


def _keep(held: dict[K, Status], key: K, value: bytes | None) -> None:
    if value is None:
        held.pop(key, None)
    else:
        held[key] = msgspec.json.decode(value, type=Status)


def connector_status_record(name: str, status: Status | None) -> Record:
    return (_CONNECTOR + name).encode(), _encoded(status)


def task_status_record(name: str, task: int, status: Status | None) -> Record:
    return f"{_TASK}{name}-{task}".encode(), _encoded(status)


def topic_record(name: str, topic: str, found: tuple[int, int] | None) -> Record:
    """`found`: the task that uses the topic, and the time in milliseconds since 1970. None forgets the topic."""
    key = f"{_TOPIC}{topic}{_OF}{name}".encode()
    return key, None if found is None else _encoded(_TopicValue(_UsedTopic(topic, name, *found)))


def _encoded(value: object) -> bytes | None:
    return None if value is None else msgspec.json.encode(value)
