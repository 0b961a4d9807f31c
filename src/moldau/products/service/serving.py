"""Runs a service on a socket with uvicorn, in this process or in a thread.

In this process it runs until a signal, until its parent ends, or until it is idle."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp

from moldau.products.service.scrubbed import ScrubbedProtocol
from moldau.products.service.service import Service
from moldau.transport.service_tls import LOOK_AGAIN_S, ServiceTls

MAX_CONNECTIONS = 100
IDLE_CHECK_S = 30.0
END_WITHIN_S = 10.0
LAST_ANSWERS_S = 1
"""How long responses in progress may take when the service stops."""
LAST_WORDS_S = 0.5
"""After this time of the stop, connections with a finished response are cut: an idle TLS client does not answer the
alert that ends its connection."""


def serve(
    service: Service,
    app: ASGIApp,
    listening: socket.socket,
    close: Callable[[], None],
    *,
    tls: ServiceTls | None = None,
    is_child: bool = False,
    idle_exit_s: float = 0,
) -> None:
    """Returns after SIGINT or SIGTERM. `close` closes the service's resources; it may be called twice.

    `tls`: for every connection; its files are watched. `is_child`: also ends when standard input closes, as it does
    when the parent dies. `idle_exit_s`: ends after this time without a request; 0 never.
    """
    server = _Server(service, app, tls)

    def end_with_parent() -> None:
        # not through sys.stdin: Python aborts at its end if a thread still holds that buffer
        while os.read(sys.stdin.fileno(), 4096):
            pass
        service.close()
        close()
        server.should_exit = True

    def end_when_idle() -> None:
        while not service.is_idle(idle_exit_s):
            time.sleep(min(IDLE_CHECK_S, idle_exit_s))
        server.should_exit = True

    if is_child:
        threading.Thread(target=end_with_parent, name="parent", daemon=True).start()
    if idle_exit_s:
        threading.Thread(target=end_when_idle, name="idle", daemon=True).start()
    try:
        with _ended_by_sigterm(server):
            asyncio.run(server.serve([listening]))
    except KeyboardInterrupt:
        pass
    finally:
        service.close()
        close()


@contextmanager
def _ended_by_sigterm(server: uvicorn.Server) -> Iterator[None]:
    """Ends the server at SIGTERM. uvicorn raises a signal again after its end, which would kill the process before it
    closes anything else. A second SIGTERM kills."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        server.should_exit = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def served_in_thread(
    service: Service, app: ASGIApp, listening: socket.socket, tls: ServiceTls | None = None
) -> Iterator[None]:
    """Serves in a thread inside the `with` block; leaves signals to the process."""
    server = _Server(service, app, tls)
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve([listening])), name=f"{service.name}-pages", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(END_WITHIN_S)


class _Server(uvicorn.Server):
    """Ends the streams before it waits for running requests, even when a signal stops it, which uvicorn handles
    itself."""

    def __init__(self, service: Service, app: ASGIApp, tls: ServiceTls | None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_level="error",
                access_log=False,
                server_header=False,
                lifespan="off",
                http=ScrubbedProtocol,
                ws="none",
                limit_concurrency=MAX_CONNECTIONS,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=LAST_ANSWERS_S,
            )
        )
        self._service = service
        self._tls = tls
        self._looked_s = 0.0
        self.config.load()
        if tls is not None:
            # after `load`, which makes contexts only from files
            self.config.ssl = tls.context

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second."""
        if self._tls is not None and time.monotonic() - self._looked_s >= LOOK_AGAIN_S:
            self._looked_s = time.monotonic()
            told = await run_in_threadpool(self._tls.look)
            if told is not None:
                print(f"{self._service.name}: {told}", file=sys.stderr, flush=True)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.close()
        cut = asyncio.get_running_loop().call_later(LAST_WORDS_S, self._cut_idle)
        await super().shutdown(sockets)
        cut.cancel()
        await self._service.end()

    def _cut_idle(self) -> None:
        for connection in list(self.server_state.connections):
            transport = connection.transport
            if transport is not None and transport.is_closing():
                transport.abort()
