"""Our schema registry in this process, over real HTTP and a real topic."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

from starlette.types import Receive, Scope, Send

from moldau.client.protocol.access import ClusterAccess
from moldau.products.registry.routes import Routes, error, not_found
from moldau.products.registry.topic import SchemasTopic
from moldau.products.service.logins.opened import callers_entrance, read_opening
from moldau.products.service.service import Service
from moldau.products.service.serving import served_in_thread


class SchemaRegistry:
    """Runs from the constructor's return to `close`. `asked`: the paths of all requests; `login`: the file of users."""

    def __init__(self, cluster: ClusterAccess | str, topic: str = "_schemas", *, login: Path | None = None) -> None:
        self.asked: list[str] = []
        access = ClusterAccess.of(cluster)
        opening = read_opening("127.0.0.1", login)
        self.topic = SchemasTopic(access, topic)
        service = self.service = Service("registry", callers_entrance(opening, access).admit)
        app = service.app(Routes(self.topic).routes(), not_found, error=error)

        async def noted(scope: Scope, receive: Receive, send: Send) -> None:
            self.asked.append(scope["path"])
            await app(scope, receive, send)

        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        self.url = f"{opening.scheme}://127.0.0.1:{listening.getsockname()[1]}"
        self._served = ExitStack()
        self._served.callback(self.topic.close)
        self._served.enter_context(served_in_thread(service, noted, listening, opening.tls))

    def close(self) -> None:
        self._served.close()
