"""What the leader of the group does for each connector: it splits the connector into tasks, and keeps its state.

It works in a thread of its own, because the process that splits takes a while.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec

from moldau.errors import MoldauError
from moldau.products.connect.config_topic import Configs
from moldau.products.connect.core import decisions
from moldau.products.connect.core.configs import Config, ConfigState, Record, Target
from moldau.products.connect.core.refusals import Refusal
from moldau.products.connect.core.statuses import (
    FAILED,
    RUNNING,
    TASK_STATUS,
    Status,
    StatusState,
    connector_status_record,
    task_status_record,
    topic_record,
)
from moldau.products.connect.running.plugins import Plugins
from moldau.products.connect.splitting import Splitting
from moldau.products.connect.status_topic import Statuses

WAIT_S = 0.5
FORGET_S = 10.0
"""More than a task may take to end."""
END_S = 70.0
"""More than the longest answer of the plugins."""


class Seen(msgspec.Struct, frozen=True):
    """What was carried out for a connector. `change`, `restart`: the numbers of the newest records: a connector that
    was stopped and resumed meanwhile has lost its tasks."""

    config: Config
    target: Target
    change: int
    restart: int


class Planning:
    """Works from `start` to `close`, while `is_leader`. `woken`: set when the configurations have changed."""

    def __init__(
        self,
        configs: Configs,
        statuses: Statuses,
        plugins: Plugins,
        splitting: Splitting,
        worker_id: str,
        is_leader: Callable[[], bool],
        woken: threading.Event,
    ) -> None:
        self._configs = configs
        self._statuses = statuses
        self._plugins = plugins
        self._splitting = splitting
        self._worker_id = worker_id
        self._is_leader = is_leader
        self._seen: dict[str, Seen] = {}
        self._past = configs.look(lambda state: {name: one.number for name, one in state.restarts.items()})
        self._gone: dict[bytes, float] = {}
        """Keys of states to delete, with the time of the first look that found them."""
        self._is_closed = False
        self._woken = woken
        self._thread = threading.Thread(target=self._run, name="planning", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._is_closed = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(END_S)

    # -- in the thread

    def _run(self) -> None:
        while not self._is_closed:
            if self._is_leader():
                self._look()
            elif self._seen:
                self._seen = {}
                self._configs.give_up()
            self._woken.wait(WAIT_S)
            self._woken.clear()

    def _look(self) -> None:
        now = self._configs.look(self._now)
        self._seen = {name: one for name, one in self._seen.items() if name in now}
        for name, one in now.items():
            if self._is_closed or not self._is_leader():
                return
            if self._seen.get(name) != one:
                self._carry_out(name, one)
        self._forget()

    def _now(self, state: ConfigState) -> dict[str, Seen]:
        return {
            name: Seen(config, state.target(name), state.changes.get(name, 0), self._number(state, name))
            for name, config in state.connectors.items()
        }

    def _number(self, state: ConfigState, name: str) -> int:
        found = state.restarts.get(name)
        number = 0 if found is None else found.number
        return 0 if number <= self._past.get(name, 0) else number

    def _carry_out(self, name: str, one: Seen) -> None:
        state, trace = RUNNING if one.target is Target.STARTED else one.target.value, None
        if one.target is Target.STARTED:
            try:
                self._plan(name, one.config)
            except Refusal as refusal:
                if refusal.status == 409:  # another worker leads
                    return
                state, trace = FAILED, str(refusal)
            except MoldauError as error:
                state, trace = FAILED, str(error)
        self._seen[name] = one
        status = Status(state, trace, self._worker_id, 0, self._plugins.version_of(one.config))
        self._statuses.put([connector_status_record(name, status)])

    def _plan(self, name: str, config: Config) -> None:
        """Raises Refusal."""
        tasks = self._splitting.tasks_of(name, config)
        self._configs.write(lambda state: (decisions.plan(state, name, tasks), None))

    def _forget(self) -> None:
        """Deletes states of connectors and tasks that are gone for FORGET_S: their workers do it when the tasks have
        ended, but a worker may be gone too. A connector has its state from the leader, which deletes it at once."""
        counts = self._configs.look(lambda state: {name: len(state.tasks.get(name, ())) for name in state.connectors})
        found = self._statuses.look(lambda state: _forgotten(state, counts))
        now_s = time.monotonic()
        self._gone = {key: self._gone.get(key, now_s) for key, _ in found}
        late = [record for record in found if _is_own(record) or now_s - self._gone[record[0]] >= FORGET_S]
        self._gone |= {key: now_s for key, _ in late}
        self._statuses.put(late)


def _is_own(record: Record) -> bool:
    return not record[0].startswith(TASK_STATUS)


def _forgotten(state: StatusState, counts: dict[str, int]) -> list[Record]:
    """`counts`: the number of tasks of each connector."""
    records = [connector_status_record(name, None) for name in state.connectors if name not in counts]
    records += [task_status_record(*key, None) for key in state.tasks if key[1] >= counts.get(key[0], 0)]
    records += [
        topic_record(name, topic, None)
        for name, topics in state.topics.items()
        if name not in counts
        for topic in topics
    ]
    return records
