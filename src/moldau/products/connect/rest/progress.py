"""The progress of tasks, of this worker and of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from moldau.products.connect.core import refusals
from moldau.products.connect.requests import Requests
from moldau.products.connect.rest.forwarding import Peers
from moldau.products.connect.worker import Worker, worker_id_of

PROGRESS = "progress"
SOON_S = 5.0
"""For another worker's part of an answer."""

Answer = dict[str, Any]


class Gathering:
    """Thread-safe."""

    def __init__(self, worker: Worker, requests: Requests, peers: Peers) -> None:
        self._worker = worker
        self._requests = requests
        self._peers = peers

    def of(self, names: Sequence[str], authorization: str | None, *, may_ask: bool) -> dict[str, list[Answer]]:
        """The tasks of each connector that exists. `may_ask`: those of other workers too; a worker that does not
        answer soon has tasks without progress. `authorization`: of the person who asks."""
        found = {name: self._own(name) for name in names}
        if may_ask:
            owners = {
                (name, task): self._owner_of(name, task)
                for name, tasks in found.items()
                for task in range(self._count(name))
                if task not in tasks
            }
            for address in dict.fromkeys(one for one in owners.values() if one is not None):
                there = self._at(address, authorization)
                for name in found.keys() & there.keys():
                    found[name] |= {one["id"]: one for one in there[name][PROGRESS]}
            for (name, task), owner in owners.items():
                worker_id = None if owner is None else worker_id_of(owner)
                found[name].setdefault(task, {"id": task, "worker_id": worker_id, PROGRESS: None})
        return {name: [tasks[task] for task in sorted(tasks)] for name, tasks in found.items()}

    def _own(self, name: str) -> dict[int, Answer]:
        try:
            return {one["id"]: one for one in self._requests.progress(name)}
        except refusals.Refusal:
            return {}  # the connector was deleted meanwhile, or the worker is joining the group

    def _count(self, name: str) -> int:
        try:
            return len(self._requests.tasks(name))
        except refusals.Refusal:
            return 0

    def _owner_of(self, name: str, task: int) -> str | None:
        try:
            return self._worker.owner_of_task(name, task)
        except refusals.Refusal:
            return None

    def _at(self, address: str, authorization: str | None) -> dict[str, dict[str, list[Answer]]]:
        url, query = f"{address.rstrip('/')}/connectors", f"expand={PROGRESS}"
        try:
            told = self._peers.forward("GET", url, query, b"", authorization, timeout_s=SOON_S)
        except refusals.Refusal:
            return {}
        return dict(msgspec.json.decode(told.body)) if told.status == 200 else {}
