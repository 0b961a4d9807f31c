"""One worker: it shares the tasks with the workers of its group, runs its own, and leads the group if it is chosen."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, Protocol

from moldau.client.protocol.access import AccessError, ClusterAccess
from moldau.errors import MoldauError
from moldau.products.connect.config_topic import ConfigMemory, Configs, ConfigTopic
from moldau.products.connect.connector_offsets import ConnectorOffsets
from moldau.products.connect.core import refusals
from moldau.products.connect.core.progress import TaskProgress
from moldau.products.connect.core.shares import LEADER, share_of_task
from moldau.products.connect.loggers import Loggers
from moldau.products.connect.membership import Alone, Membership
from moldau.products.connect.planning import Planning
from moldau.products.connect.running.plugins import Plugins
from moldau.products.connect.running.programs import Programs, has_jvm
from moldau.products.connect.running.supervision import Supervision, TaskSettings
from moldau.products.connect.settings import CA_LOCATION, WorkerSettings, WorkerSettingsError
from moldau.products.connect.splitting import Splitting
from moldau.products.connect.status_topic import Statuses, StatusMemory, StatusTopic
from moldau.transport.librdkafka import librdkafka_settings

BEAT_S = 0.1
"""Between two looks at the tasks and the group."""
PAUSE_S = 1.0
"""After a look that failed."""
END_S = 30.0

_log = logging.getLogger(__name__)


class Group(Protocol):
    """What a worker needs of its membership."""

    @property
    def owned(self) -> frozenset[int]: ...
    @property
    def generation(self) -> int: ...
    @property
    def shares(self) -> int: ...
    def poll(self, seconds: float) -> None: ...
    def close(self) -> None: ...
    def owner_of(self, share: int) -> str: ...


class Worker:
    """Reads the topics in its constructor; works from `start` to `close`. Its attributes are thread-safe."""

    def __init__(
        self,
        access: ClusterAccess,
        settings: WorkerSettings,
        programs: Programs,
        address: str,
        *,
        is_standalone: bool = False,
    ) -> None:
        """`address`: the URL at which other workers reach this one. Raises TopicError, WorkerSettingsError."""
        self.address = address
        self.peers_ca = settings.text(CA_LOCATION)
        """Authorities of the other workers' certificates: the name of a file, or empty."""
        self.is_standalone = is_standalone
        self.loggers = Loggers()
        self.plugins = Plugins(programs.plugins, settings.converters)
        self._settings = settings
        self._access = access.named("moldau-connect")
        self._client = _texts(librdkafka_settings(self._access))
        self.worker_id = worker_id_of(address)
        self._properties = _properties(self._access)
        self.offsets = ConnectorOffsets(
            self._access,
            settings.text("offset.storage.topic"),
            settings.number("offset.storage.partitions"),
            settings.replicas("offset"),
        )
        self.cluster_id = self.offsets.cluster_id
        self.splitting = Splitting(self.plugins, self.offsets)
        self._woken = threading.Event()
        self.configs, self.statuses = self._stores()
        self._supervision = Supervision(
            self.configs,
            self.statuses,
            TaskSettings(
                programs.of_task,
                self._of_every_task,
                lambda config: settings.graceful_s(has_jvm=has_jvm(config)),
                settings.number("moldau.task.nice"),
                settings.number("moldau.task.starts"),
            ),
            self.worker_id,
            self.plugins.version_of,
        )
        self._group: Group | None = None
        self._planning = Planning(
            self.configs,
            self.statuses,
            self.plugins,
            self.splitting,
            self.worker_id,
            self.is_leader,
            self._woken,
        )
        self._levels: Mapping[str, str] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._planning.start()

    def close(self) -> None:
        """Stops the tasks, and leaves the group. May be called twice."""
        self._closing.set()
        self._planning.close()
        if self._thread.is_alive():
            self._thread.join(self._settings.graceful_s(has_jvm=True) + END_S)
        self.configs.close()
        self.statuses.close()
        self.offsets.close()

    @property
    def servers(self) -> str:
        """The brokers of its cluster."""
        return self._access.bootstrap_servers

    @property
    def is_ready(self) -> bool:
        """Whether the worker has joined its group."""
        group = self._group
        return group is not None and group.generation > 0

    def is_leader(self) -> bool:
        group = self._group
        return group is not None and LEADER in group.owned and not self._closing.is_set()

    def owner_of_leader(self) -> str:
        """The address of the leader. Raises Refusal."""
        return self._there().owner_of(LEADER)

    def owner_of_task(self, name: str, task: int) -> str:
        """The address of the worker that runs the task. Raises Refusal."""
        group = self._there()
        return group.owner_of(share_of_task(name, task, group.shares))

    def runs_task(self, name: str, task: int) -> bool:
        """Raises Refusal."""
        group = self._there()
        return share_of_task(name, task, group.shares) in group.owned

    @property
    def progress(self) -> Mapping[tuple[str, int], TaskProgress]:
        """Of the tasks that run here, by connector and task."""
        return self._supervision.progress

    def restart_task(self, name: str, task: int) -> None:
        """Of a task that runs here."""
        self._supervision.restart_task(name, task)

    def _there(self) -> Group:
        if self._group is None:
            raise refusals.moving()
        return self._group

    def _stores(self) -> tuple[Configs, Statuses]:
        if self.is_standalone:
            return ConfigMemory(self._changed), StatusMemory()
        settings = self._settings
        configs = ConfigTopic(
            self._access,
            settings.text("config.storage.topic"),
            settings.replicas("config"),
            settings.text("group.id"),
            self._changed,
        )
        statuses = StatusTopic(
            self._access,
            settings.text("status.storage.topic"),
            settings.number("status.storage.partitions"),
            settings.replicas("status"),
        )
        return configs, statuses

    def _changed(self) -> None:
        self._woken.set()

    def _of_every_task(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self._access.bootstrap_servers,
            "group.id": self._settings.text("group.id"),
            "offset.storage.topic": self._settings.text("offset.storage.topic"),
            "client": self._client,
            "access": self._properties,
            "spark": self._settings.spark,
            **self._settings.converters,
        }

    # -- in the thread

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._group = self._joined()
                self._work(self._group)
            except Exception as error:
                if not isinstance(error, MoldauError):
                    _log.exception("the worker")
                _log.warning("the worker goes on in %.0f s: %s", PAUSE_S, error)
                self._closing.wait(PAUSE_S)
        self._supervision.release(lambda name, task: True)

    def _joined(self) -> Group:
        if self.is_standalone:
            return Alone(self.address)
        shares = self._settings.number("moldau.shares")
        return Membership(self._access, self._settings.text("group.id"), self.address, shares, self._release)

    def _work(self, group: Group) -> None:
        try:
            while not self._closing.is_set():
                group.poll(BEAT_S)
                self._supervision.look(group.owned, group.shares, group.generation)
                self._apply_levels()
        finally:
            group.close()
            self._group = None

    def _release(self, shares: frozenset[int]) -> None:
        group = self._group
        if group is not None:
            self._supervision.release(lambda name, task: share_of_task(name, task, group.shares) in shares)

    def _apply_levels(self) -> None:
        levels = self.configs.look(lambda state: dict(state.levels))
        for name, level in levels.items():
            if self._levels.get(name) != level:
                self.loggers.set(name, level)
        self._levels = levels


def worker_id_of(address: str) -> str:
    """A worker in answers: host and port of its address."""
    return address.split("://", 1)[-1].rstrip("/")


def _texts(client: Mapping[str, object]) -> dict[str, str]:
    """The settings of the client as tasks get them, which are other processes. Raises WorkerSettingsError."""
    for name, value in client.items():
        if not isinstance(value, str | int | float | bool):
            raise WorkerSettingsError(f"tasks cannot log in by {name}: use a way of logging in that librdkafka has")
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in client.items()}


def _properties(access: ClusterAccess) -> dict[str, str] | None:
    """The access for our own clients in tasks, with references to secrets; None if a secret is in memory alone."""
    try:
        return access.properties()
    except AccessError:
        return None
