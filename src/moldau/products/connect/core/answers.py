"""Answers of the REST interface about connectors, in Kafka Connect's shapes."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.products.connect.core import refusals
from moldau.products.connect.core.configs import Config, ConfigState
from moldau.products.connect.core.statuses import FAILED, RESTARTING, Status, StatusState

Answer = dict[str, object]


def info(configs: ConfigState, name: str, kind: str) -> Answer:
    """`kind`: source, sink or unknown. Raises Refusal."""
    tasks = [{"connector": name, "task": task} for task in range(len(configs.tasks.get(name, ())))]
    return {"name": name, "config": config_of(configs, name), "tasks": tasks, "type": kind}


def config_of(configs: ConfigState, name: str) -> Config:
    """Raises Refusal."""
    try:
        return configs.connectors[name]
    except KeyError:
        raise refusals.no_connector(name) from None


def task_infos(configs: ConfigState, name: str) -> list[Answer]:
    """Raises Refusal."""
    config_of(configs, name)
    tasks = configs.tasks.get(name, ())
    return [{"id": {"connector": name, "task": task}, "config": config} for task, config in enumerate(tasks)]


def status(statuses: StatusState, name: str, kind: str) -> Answer:
    """Raises Refusal."""
    found = statuses.connectors.get(name)
    if found is None:
        raise refusals.no_status(name)
    tasks = [{"id": task, **_state(one)} for task, one in statuses.tasks_of(name).items()]
    return {"name": name, "connector": _state(found), "tasks": tasks, "type": kind}


def task_status(statuses: StatusState, name: str, task: int) -> Answer:
    """Raises Refusal."""
    found = statuses.tasks.get((name, task))
    if found is None:
        raise refusals.no_task_status(name, task)
    return {"id": task, **_state(found)}


def restarting(answer: Answer, parts: Mapping[int | None, bool]) -> Answer:
    """The status of a connector whose parts will restart. `parts`: by task, None is the connector itself."""
    connector = answer["connector"]
    tasks = answer["tasks"]
    if not isinstance(connector, dict) or not isinstance(tasks, list):
        raise TypeError("no status")
    told = [{**one, "state": RESTARTING} if parts.get(one["id"]) else one for one in tasks]
    return {
        **answer,
        "connector": {**connector, "state": RESTARTING} if parts.get(None) else connector,
        "tasks": told,
    }


def restarted_parts(
    statuses: StatusState, name: str, *, include_tasks: bool, only_failed: bool
) -> dict[int | None, bool]:
    """The parts that a restart of these words concerns: the connector (None), and tasks by their number."""

    def concerns(one: Status | None) -> bool:
        return not only_failed or (one is not None and one.state == FAILED)

    found: dict[int | None, bool] = {None: concerns(statuses.connectors.get(name))}
    if include_tasks:
        found |= {task: concerns(one) for task, one in statuses.tasks_of(name).items()}
    return found


def topics(statuses: StatusState, name: str) -> Answer:
    return {name: {"topics": list(statuses.topics.get(name, {}))}}


def _state(found: Status) -> Answer:
    told: Answer = {"state": found.state, "worker_id": found.worker_id}
    if found.trace is not None:
        told["trace"] = found.trace
    return {**told, "version": found.version}
