"""What a request of the REST interface does, with Kafka Connect's checks in their order. Each raises Refusal.

Requests that write are for the leader; `rest.forwarding` brings them there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moldau import __version__
from moldau.errors import KafkaError
from moldau.products.connect.connector_offsets import Change
from moldau.products.connect.core import answers, decisions, refusals
from moldau.products.connect.core.configs import Target, level_record
from moldau.products.connect.core.statuses import topic_record
from moldau.products.connect.loggers import checked_level
from moldau.products.connect.running.plugins import CONNECTORS, UNKNOWN
from moldau.products.connect.running.programs import PIPELINE, runner_of
from moldau.products.connect.worker import Worker

Answer = dict[str, Any]
CLASS = "connector.class"
MOST_ERRORS = 100
"""In the sentence about an invalid configuration."""


class Requests:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    # -- the worker

    def about(self) -> Answer:
        return {"version": __version__, "commit": "", "kafka_cluster_id": self._worker.cluster_id}

    # -- reading

    def connectors(self, expand: Sequence[str]) -> list[str] | Answer:
        names = self._worker.configs.look(lambda state: list(state.connectors))
        if not expand:
            return names
        found: Answer = {}
        for name in names:
            try:
                found[name] = {one: self._expanded(one, name) for one in ("info", "status") if one in expand}
            except refusals.Refusal:
                continue  # it was deleted meanwhile, or has no state yet
        return found

    def info(self, name: str) -> Answer:
        config = self.config(name)
        kind = self._worker.plugins.kind_of(config)
        return self._worker.configs.look(lambda state: answers.info(state, name, kind))

    def config(self, name: str) -> Mapping[str, str]:
        return self._worker.configs.look(lambda state: answers.config_of(state, name))

    def status(self, name: str) -> Answer:
        kind = self._kind(name)
        return self._worker.statuses.look(lambda state: answers.status(state, name, kind))

    def tasks(self, name: str) -> list[Answer]:
        return self._worker.configs.look(lambda state: answers.task_infos(state, name))

    def task_status(self, name: str, task: int) -> Answer:
        return self._worker.statuses.look(lambda state: answers.task_status(state, name, task))

    def progress(self, name: str) -> list[Answer]:
        """Of the tasks that run here."""
        count, worker = len(self.tasks(name)), self._worker
        return [
            {"id": task, "worker_id": worker.worker_id, "progress": worker.progress.get((name, task))}
            for task in range(count)
            if worker.runs_task(name, task)
        ]

    def delivery(self, name: str) -> str | None:
        """exactly-once or at-least-once."""
        return self._worker.plugins.delivery_of(self.config(name))

    def topics(self, name: str) -> Answer:
        return self._worker.statuses.look(lambda state: answers.topics(state, name))

    def offsets(self, name: str) -> Answer:
        config = self.config(name)
        if runner_of(config) == PIPELINE:
            return {"offsets": self._worker.plugins.pipeline_offsets(config, self._worker.servers)}
        return self._worker.offsets.of(name, self._worker.plugins.kind_of(config))

    # -- changing connectors

    def create(self, name: str, config: Mapping[str, str], target: Target | None) -> Answer:
        config = decisions.named(name, config)
        self._require_valid(config)
        if target is not Target.STOPPED:  # so that the offsets of a deleted connector of this name can be reset
            self._worker.splitting.check(name, config)
        self._worker.configs.write(lambda state: (decisions.create(state, name, config, target), None))
        return {"name": name, "config": config, "tasks": [], "type": self._worker.plugins.kind_of(config)}

    def replace(self, name: str, config: Mapping[str, str]) -> tuple[bool, Answer]:
        """Whether the connector is new, and the answer."""
        config = decisions.named(name, config)
        self._require_valid(config)
        self._worker.splitting.check(name, config)
        is_new = self._worker.configs.write(
            lambda state: (decisions.replace(state, name, config), name not in state.connectors)
        )
        return is_new, self.info(name)

    def patch(self, name: str, patch: Mapping[str, str | None]) -> Answer:
        config = self._worker.configs.look(lambda state: decisions.patched(state, name, patch))
        return self.replace(name, config)[1]

    def delete(self, name: str) -> None:
        self._worker.configs.write(lambda state: (decisions.delete(state, name), None))

    def retarget(self, name: str, target: Target) -> None:
        self._worker.configs.write(lambda state: (decisions.retarget(state, name, target), None))

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> Answer:
        def decide(state: Any) -> tuple[Any, None]:
            return decisions.restart(state, name, include_tasks=include_tasks, only_failed=only_failed), None

        self._worker.configs.write(decide)
        parts = self._worker.statuses.look(
            lambda state: answers.restarted_parts(state, name, include_tasks=include_tasks, only_failed=only_failed)
        )
        return answers.restarting(self.status(name), parts)

    def require_task(self, name: str, task: int) -> None:
        self._worker.configs.look(lambda state: decisions.require_task(state, name, task))

    def restart_task(self, name: str, task: int) -> None:
        self.require_task(name, task)
        self._worker.restart_task(name, task)

    def reset_topics(self, name: str) -> None:
        topics = self._worker.statuses.look(lambda state: list(state.topics.get(name, {})))
        self._worker.statuses.put([topic_record(name, topic, None) for topic in topics])

    def alter_offsets(self, name: str, changes: Sequence[Change]) -> Answer:
        self._require_stopped(name)
        self._require_no_pipeline(name)
        self._worker.offsets.alter(name, self._worker.plugins.kind_of(self.config(name)), changes)
        return {"message": "The offsets for this connector have been altered successfully"}

    def reset_offsets(self, name: str) -> Answer:
        self._require_stopped(name)
        self._require_no_pipeline(name)
        self._worker.offsets.reset(name, self._worker.plugins.kind_of(self.config(name)))
        return {"message": "The offsets for this connector have been reset successfully"}

    # -- plugins

    def plugins(self, *, only_connectors: bool) -> list[Answer]:
        found = self._worker.plugins.listed()
        return [one for one in found if not only_connectors or one["type"] in CONNECTORS]

    def plugin_settings(self, name: str) -> list[Answer]:
        return self._worker.plugins.settings_of(name)

    def validate(self, name: str, config: Mapping[str, str | None]) -> Answer:
        told = config.get(CLASS)
        if told is not None and told != name:
            raise refusals.bad_request(f"Included connector type {told} does not match request type {name}")
        return self._validated(config)

    # -- loggers

    def set_level(self, name: str, level: object) -> list[str]:
        return self._worker.loggers.set(name, checked_level(level))

    def set_level_everywhere(self, name: str, level: object) -> None:
        word = checked_level(level)
        self._worker.configs.write(lambda state: ([level_record(name, word)], None))

    # -- parts

    def _expanded(self, what: str, name: str) -> Answer:
        return self.info(name) if what == "info" else self.status(name)

    def _kind(self, name: str) -> str:
        config = self._worker.configs.look(lambda state: state.connectors.get(name))
        return UNKNOWN if config is None else self._worker.plugins.kind_of(config)

    def _validated(self, config: Mapping[str, str | None]) -> Answer:
        if not config.get(CLASS):
            raise refusals.bad_request("Connector config contains no connector type")
        try:
            return self._worker.plugins.validate(config)
        except KafkaError as error:
            raise refusals.bad_request(error.message or error.name) from error

    def _require_valid(self, config: Mapping[str, str]) -> None:
        found = self._validated(config)
        errors = [sentence for one in found["configs"] for sentence in one["value"]["errors"]]
        if errors:
            told = "\n".join(errors[:MOST_ERRORS])
            raise refusals.bad_request(
                f"Connector configuration is invalid and contains the following {len(errors)} error(s):\n{told}\n"
                "You can also find the above list of errors at the endpoint "
                "`/connector-plugins/{connectorType}/config/validate`"
            )

    def _require_no_pipeline(self, name: str) -> None:
        config = self.config(name)
        if runner_of(config) == PIPELINE:
            raise refusals.bad_request(
                f"The offsets of {name} are those of a pipeline: set them on the worker with "
                f"`moldau pipeline reset {config.get('pipeline.file')} --to earliest --execute`, which also takes a "
                "time or offsets"
            )

    def _require_stopped(self, name: str) -> None:
        self._worker.configs.look(lambda state: decisions.require_stopped(state, name))
        if self._worker.statuses.look(lambda state: state.tasks_of(name)):
            raise refusals.Refusal(409, f"The tasks of connector {name} have not stopped yet")
