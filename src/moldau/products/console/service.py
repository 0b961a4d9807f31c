"""Serves the page on a socket: uvicorn in this process, until a signal stops it or its parent is gone."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time

import uvicorn

from moldau.products.console.routes import make_app
from moldau.products.console.viewers import Console

MAX_CONNECTIONS = 100
IDLE_CHECK_S = 30.0


def serve(bootstrap_servers: str, listening: socket.socket, *, is_child: bool = False, idle_exit_s: float = 0) -> None:
    """Returns after SIGINT or SIGTERM.

    `is_child`: ends also when standard input closes, as it does when the parent dies. `idle_exit_s`: ends after so long
    without a request; 0 never.
    """
    console = Console(bootstrap_servers)
    config = uvicorn.Config(
        make_app(console),
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="off",
        http="h11",
        ws="none",
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    if is_child:
        threading.Thread(target=_end_with_parent, args=(server, console), name="parent", daemon=True).start()

    if idle_exit_s:
        threading.Thread(target=_end_when_idle, args=(server, console, idle_exit_s), name="idle", daemon=True).start()
    try:
        asyncio.run(server.serve([listening]))
    except KeyboardInterrupt:
        pass
    finally:
        console.close()


def _end_with_parent(server: uvicorn.Server, console: Console) -> None:
    # not through sys.stdin: Python ends with an abort where a thread still holds its buffer
    while os.read(sys.stdin.fileno(), 4096):
        pass
    console.close()
    server.should_exit = True


def _end_when_idle(server: uvicorn.Server, console: Console, idle_exit_s: float) -> None:
    while not console.is_idle(idle_exit_s):
        time.sleep(min(IDLE_CHECK_S, idle_exit_s))
    server.should_exit = True
