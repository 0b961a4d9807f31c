"""The configurations of connectors and tasks, folded from the topic of configurations in Kafka Connect's form.

Keys are texts, values are JSON:

    connector-NAME          {"properties": {...}}; a tombstone deletes the connector
    task-NAME-0             {"properties": {...}}; counts when `commit-NAME` comes
    commit-NAME             {"tasks": 1}
    target-state-NAME       {"state": "PAUSED", "state.v2": "STOPPED"}
    restart-connector-NAME  {"include-tasks": true, "only-failed": false}
    logger-cluster-NAME     {"level": "DEBUG"}

Other keys, such as `session-key` and `tasks-fencing-NAME` of Java's workers, are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

Config = Mapping[str, str]
Record = tuple[bytes, bytes | None]
"""Key and value."""

_CONNECTOR, _TASK, _COMMIT, _TARGET = "connector-", "task-", "commit-", "target-state-"
_RESTART, _LOGGER = "restart-connector-", "logger-cluster-"


class Target(StrEnum):
    """What a connector should be."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class Restart(msgspec.Struct, frozen=True):
    """`number`: counts the requests that were read, so that each is carried out once."""

    connector: str
    include_tasks: bool
    only_failed: bool
    number: int


class ConfigState:
    """Not thread-safe."""

    def __init__(self) -> None:
        self.connectors: dict[str, Config] = {}
        self.tasks: dict[str, tuple[Config, ...]] = {}
        """The committed tasks of each connector."""
        self.targets: dict[str, Target] = {}
        self.restarts: dict[str, Restart] = {}
        """The newest request for each connector."""
        self.changes: dict[str, int] = {}
        """For each connector, a number that grows with each record of its configuration or its target."""
        self.levels: dict[str, str] = {}
        """Levels of loggers in all workers."""
        self._pending: dict[tuple[str, int], Config] = {}
        self._numbers = 0

    def target(self, name: str) -> Target:
        return self.targets.get(name, Target.STARTED)

    def apply(self, key: bytes, value: bytes | None) -> None:
        """A record that cannot be read is passed over, as Kafka's workers do."""
        text = key.decode(errors="replace")
        try:
            content = None if value is None else msgspec.json.decode(value, type=dict[str, Any])
        except msgspec.DecodeError:
            return
        for prefix, apply in (
            (_RESTART, self._restart),
            (_CONNECTOR, self._connector),
            (_TARGET, self._target),
            (_COMMIT, self._commit),
            (_TASK, self._task),
            (_LOGGER, self._logger),
        ):
            if text.startswith(prefix):
                apply(text.removeprefix(prefix), content)
                return

    def _connector(self, name: str, content: Mapping[str, Any] | None) -> None:
        if content is None:
            for held in (self.connectors, self.tasks, self.restarts, self.changes):
                held.pop(name, None)
            self._forget_pending(name)
        elif isinstance(content.get("properties"), dict):
            self.connectors[name] = _texts(content["properties"])
            self._count(name)

    def _task(self, rest: str, content: Mapping[str, Any] | None) -> None:
        name, dash, number = rest.rpartition("-")
        if dash and number.isdigit() and content is not None and isinstance(content.get("properties"), dict):
            self._pending[name, int(number)] = _texts(content["properties"])

    def _commit(self, name: str, content: Mapping[str, Any] | None) -> None:
        count = None if content is None else content.get("tasks")
        if not isinstance(count, int) or name not in self.connectors:
            return
        # a task whose configuration has not changed since the last commit may come without a record
        known = dict(enumerate(self.tasks.get(name, ())))
        known |= {number: config for (one, number), config in self._pending.items() if one == name}
        if all(number in known for number in range(count)):
            self.tasks[name] = tuple(known[number] for number in range(count))
        self._forget_pending(name)

    def _target(self, name: str, content: Mapping[str, Any] | None) -> None:
        if content is None:
            self.targets.pop(name, None)
            self.changes.pop(name, None)
            return
        found = content.get("state.v2", content.get("state"))
        if found in list(Target):
            self.targets[name] = Target(found)
            self._count(name)

    def _restart(self, name: str, content: Mapping[str, Any] | None) -> None:
        if content is not None and name in self.connectors:
            self._numbers += 1
            tasks, failed = content.get("include-tasks") is True, content.get("only-failed") is True
            self.restarts[name] = Restart(name, tasks, failed, self._numbers)

    def _logger(self, name: str, content: Mapping[str, Any] | None) -> None:
        level = None if content is None else content.get("level")
        if isinstance(level, str):
            self.levels[name] = level
        else:
            self.levels.pop(name, None)

    def _count(self, name: str) -> None:
        self._numbers += 1
        self.changes[name] = self._numbers

    def _forget_pending(self, name: str) -> None:
        self._pending = {key: config for key, config in self._pending.items() if key[0] != name}


def connector_record(name: str, config: Config | None) -> Record:
    """None deletes the connector."""
    return _key(_CONNECTOR + name), None if config is None else _encoded({"properties": config})


def target_record(name: str, target: Target | None) -> Record:
    if target is None:
        return _key(_TARGET + name), None
    # workers before STOPPED (KIP-875) read `state`
    old = Target.PAUSED if target is Target.STOPPED else target
    return _key(_TARGET + name), _encoded({"state": old, "state.v2": target})


def task_records(name: str, configs: tuple[Config, ...]) -> list[Record]:
    """All tasks of a connector, and their commit."""
    tasks = [
        (_key(f"{_TASK}{name}-{number}"), _encoded({"properties": config})) for number, config in enumerate(configs)
    ]
    return [*tasks, (_key(_COMMIT + name), _encoded({"tasks": len(configs)}))]


def restart_record(name: str, *, include_tasks: bool, only_failed: bool) -> Record:
    return _key(_RESTART + name), _encoded({"include-tasks": include_tasks, "only-failed": only_failed})


def level_record(name: str, level: str) -> Record:
    return _key(_LOGGER + name), _encoded({"level": level})


def _key(text: str) -> bytes:
    return text.encode()


def _encoded(value: object) -> bytes:
    return msgspec.json.encode(value)


def _texts(properties: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in properties.items() if value is not None}
