"""Workers of connectors for tests: in this process, with the programs `connect_task` and `connect_plugins`."""

from __future__ import annotations

import json
import socket
import ssl
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moldau.client.protocol.access import ClusterAccess
from moldau.products.connect.rest.served import application
from moldau.products.connect.running.programs import LIGHT, Programs
from moldau.products.connect.settings import WorkerSettings
from moldau.products.connect.worker import Worker
from moldau.products.service.admission import this_machine
from moldau.products.service.service import Service
from moldau.products.service.serving import served_in_thread

TRIES = 600
PAUSE_S = 0.05
TIMEOUT_S = 60
PAUSE = threading.Event()

FOLDER = Path(__file__).parent
TEST_PROGRAMS = Programs(
    tasks={LIGHT: (sys.executable, str(FOLDER / "connect_task.py"))},
    plugins=(sys.executable, str(FOLDER / "connect_plugins.py")),
)


class Rest:
    """The REST interface at `url`. `headers`: such as a login. `context`: for HTTPS."""

    def __init__(
        self, url: str, headers: Mapping[str, str] | None = None, context: ssl.SSLContext | None = None
    ) -> None:
        self.url = url
        self._headers = {"content-type": "application/json", **(headers or {})}
        self._context = context

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, self._headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=self._context) as answer:
                return answer.status, _read(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _read(error.read())

    def until(self, path: str, is_there: Callable[[Any], bool]) -> Any:
        """The first answer to GET of which this is true."""
        found: Any = None
        for _ in range(TRIES):
            status, found = self.ask("GET", path)
            if status == 200 and is_there(found):
                return found
            PAUSE.wait(PAUSE_S)
        raise AssertionError(f"{path}: {found}")

    def settled(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """The answer that is not 409 because of a rebalance."""
        for _ in range(TRIES):
            status, found = self.ask(method, path, body)
            if status != 409 or "rebalance" not in found["message"]:
                return status, found
            PAUSE.wait(PAUSE_S)
        raise AssertionError(f"{path}: {found}")

    def until_states(self, name: str, *states: str) -> Any:
        """The status in which the tasks have these states."""
        return self.until(
            f"/connectors/{name}/status", lambda found: [one["state"] for one in found["tasks"]] == list(states)
        )


@contextmanager
def worker(
    servers: str,
    group_id: str,
    settings: Mapping[str, str] | None = None,
    *,
    is_standalone: bool = False,
    programs: Programs = TEST_PROGRAMS,
) -> Iterator[Rest]:
    topics = {one: f"{group_id}-{one}" for one in ("config", "offset", "status")}
    own = {"group.id": group_id, **{f"{one}.storage.topic": topic for one, topic in topics.items()}}
    own |= {"offset.storage.partitions": "2", "status.storage.partitions": "2", "moldau.shares": "8"}
    own |= {f"{one}.storage.replication.factor": "1" for one in topics}
    own |= dict(settings or {})
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        found = Worker(ClusterAccess(servers), WorkerSettings(own), programs, url, is_standalone=is_standalone)
        service = Service("connect", this_machine)
        with served_in_thread(service, application(found, service), listening):
            found.start()
            try:
                rest = Rest(url)
                rest.until("/health", lambda answer: True)
                yield rest
            finally:
                found.close()


def _read(body: bytes) -> Any:
    return json.loads(body) if body else None


if __name__ == "__main__":
    with worker(*sys.argv[1:3]) as one:
        print(one.url, flush=True)
        sys.stdin.read()
