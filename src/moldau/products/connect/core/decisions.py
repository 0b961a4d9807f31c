"""The records of a request that changes a connector. Each decision raises Refusal if the request is rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.products.connect.core import refusals
from moldau.products.connect.core.configs import (
    Config,
    ConfigState,
    Record,
    Target,
    connector_record,
    restart_record,
    target_record,
    task_records,
)

NAME = "name"


def named(name: str, config: Mapping[str, str]) -> dict[str, str]:
    """The configuration with the connector's name. Raises Refusal if it names another one."""
    told = config.get(NAME)
    if told is not None and told != name:
        raise refusals.bad_request(
            f"Connector name configuration ({told}) doesn't match connector name in the URL ({name})"
        )
    return {**config, NAME: name}


def create(state: ConfigState, name: str, config: Config, target: Target | None) -> list[Record]:
    """`target`: None is STARTED."""
    if name in state.connectors:
        raise refusals.exists(name)
    # the target first: no worker sees the connector without it, and starts it
    targets = [] if target is None else [target_record(name, target)]
    return [*targets, connector_record(name, config)]


def replace(state: ConfigState, name: str, config: Config) -> list[Record]:
    """Creates the connector if it is missing."""
    return [connector_record(name, config)]


def patched(state: ConfigState, name: str, patch: Mapping[str, str | None]) -> dict[str, str]:
    """The configuration after the patch: a null removes a setting."""
    if name not in state.connectors:
        raise refusals.no_connector(name)
    found = {key: value for key, value in state.connectors[name].items() if key not in patch}
    return found | {key: value for key, value in patch.items() if value is not None}


def delete(state: ConfigState, name: str) -> list[Record]:
    if name not in state.connectors:
        raise refusals.no_connector(name)
    return [connector_record(name, None), target_record(name, None)]


def retarget(state: ConfigState, name: str, target: Target) -> list[Record]:
    """A stopped connector has no tasks, as in Kafka; it gets them when it is resumed."""
    if name not in state.connectors:
        raise refusals.unknown_connector(name)
    without_tasks = task_records(name, ()) if target is Target.STOPPED else []
    return [*without_tasks, target_record(name, target)]


def restart(state: ConfigState, name: str, *, include_tasks: bool, only_failed: bool) -> list[Record]:
    if name not in state.connectors:
        raise refusals.Refusal(404, f"Unknown connector: {name}")
    return [restart_record(name, include_tasks=include_tasks, only_failed=only_failed)]


def plan(state: ConfigState, name: str, configs: Sequence[Config]) -> list[Record]:
    """The tasks of a connector, if they are not those that it has. A connector that was deleted or stopped meanwhile
    gets none."""
    if name not in state.connectors or state.target(name) is not Target.STARTED:
        return []
    return [] if state.tasks.get(name) == tuple(configs) else task_records(name, tuple(configs))


def require_task(state: ConfigState, name: str, task: int) -> None:
    if name not in state.connectors:
        raise refusals.Refusal(404, f"Unknown connector: {name}")
    if task >= len(state.tasks.get(name, ())):
        raise refusals.Refusal(404, f"Unknown task: {name}-{task}")


def require_stopped(state: ConfigState, name: str) -> None:
    """Offsets change only while the connector has no tasks."""
    if name not in state.connectors:
        raise refusals.no_connector(name)
    if state.target(name) is not Target.STOPPED or state.tasks.get(name):
        raise refusals.not_stopped(name)
