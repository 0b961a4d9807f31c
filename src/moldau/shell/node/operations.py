"""The HTTP endpoint of a node for operators: `/metrics`, `/live`, `/ready`. Open from before recovery to the end.

/live      200 as long as the event loop runs: restart the process if it does not answer
/ready     200 while clients are served; 503 with the reason: starting, stopping
/metrics   Prometheus' text
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from moldau.core.config.security_settings import HTTP
from moldau.errors import MoldauError
from moldau.shell.node.loop_watch import LoopWatch
from moldau.shell.node.status import NodeStatus
from moldau.transport.http_endpoint import (
    LOOPBACK_NAMES,
    Admitting,
    HttpAnswer,
    HttpConnection,
    HttpEndpoint,
    everybody,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from moldau.core.config.broker_settings import BrokerSettings
    from moldau.ports import Clock
    from moldau.shell.network.connection_group import ConnectionGroup
    from moldau.shell.network.event_log import EventLog
    from moldau.shell.node.tls import NodeTls
    from moldau.telemetry import Telemetry
    from moldau.transport.network import Listener, Network


class Operations:
    """One per node; it records the node's current state in `status`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        telemetry: Telemetry,
        timer: Callable[[], float],
        group: ConnectionGroup,
    ) -> None:
        self.status = NodeStatus(clock, telemetry, LoopWatch(loop), group)
        self.address = ""
        """HOST:PORT, once it listens."""
        self.scheme = "http"
        self._loop = loop
        self.timer = timer
        """Returns seconds; for the times in the metrics."""
        self._endpoint: HttpEndpoint | None = None
        self._listener: Listener | None = None
        self._scrape: asyncio.Task[bytes] | None = None

    async def listen(self, network: Network, settings: BrokerSettings, tls: NodeTls | None, log: EventLog) -> None:
        """Listens at `moldau.http.listener`: HOST:PORT, or HOST:PORT+, which allows any other port if that one is
        taken. Raises MoldauError for an invalid address and for users that cannot be read, OSError for a port in
        use."""
        address = settings.moldau_http_listener
        host, colon, port = address.rpartition(":")
        is_wish, port = port.endswith("+"), port.removesuffix("+")
        host = host.strip("[]")
        if not colon or not port.isdigit() or int(port) > 65535:
            raise MoldauError(f"moldau.http.listener takes HOST:PORT, not {address!r}")
        admits: Admitting = everybody
        if settings.moldau_http_users_file:
            from moldau.shell.node.http_users import HttpUsers

            admits = HttpUsers(settings.moldau_http_users_file, log).admits
        endpoint = HttpEndpoint(self._loop, self.answer, is_loopback_only=host in LOOPBACK_NAMES, admits=admits)
        server = tls.server(HTTP) if tls is not None and settings.moldau_http_tls else None
        try:
            self._listener = await network.listen(host, int(port), lambda: HttpConnection(endpoint), server)
        except OSError:
            if not is_wish:
                raise
            self._listener = await network.listen(host, 0, lambda: HttpConnection(endpoint), server)
        self.scheme = "http" if server is None else "https"
        self._endpoint = endpoint
        shown = host or "localhost"
        self.address = f"[{shown}]:{self._listener.port}" if ":" in shown else f"{shown}:{self._listener.port}"
        self.status.watch.start()

    def close(self) -> None:
        """Closes the port and the connections to it."""
        self.status.ended()
        self.status.watch.stop()
        if self._listener is not None:
            self._listener.close()
        if self._endpoint is not None:
            self._endpoint.close()
        if self._scrape is not None:
            self._scrape.cancel()

    async def answer(self, path: str) -> HttpAnswer:
        """The answer to GET of one path: `/live`, `/ready`, `/metrics`; else 404."""
        if path == "/live":
            return HttpAnswer(HTTPStatus.OK, b"live\n")
        if path == "/ready":
            reason = self.status.reason_not_ready()
            if reason is None:
                return HttpAnswer(HTTPStatus.OK, b"ready\n")
            return HttpAnswer(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: {reason}\n".encode())
        if path == "/metrics":
            from moldau.transport.exposition import CONTENT_TYPE

            return HttpAnswer(HTTPStatus.OK, await self._metrics(), CONTENT_TYPE)
        return HttpAnswer(HTTPStatus.NOT_FOUND, b"here are /metrics, /live and /ready\n")

    async def _metrics(self) -> bytes:
        """The metrics as text. Concurrent requests share one scrape."""
        import asyncio

        if self._scrape is None or self._scrape.done():
            self._scrape = self._loop.create_task(self._collect())
        return await asyncio.shield(self._scrape)

    async def _collect(self) -> bytes:
        from moldau.shell.node.metrics.collect import collect

        started_s = self.timer()
        page = await collect(self.status)
        self.status.scraped(self.timer() - started_s)
        return page
