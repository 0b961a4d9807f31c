"""A service next to a broker (web console, registry) that starts at its first request.

The broker's process has only a listening socket, and the first request starts a child process that serves it. The child
ends when its standard input closes, which also happens if the broker's process is killed. It ends after IDLE_EXIT_S
without a request, and the next request starts it again. Each service is a Kafka client.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Sequence

from moldau.client.protocol.access import ClusterAccess

IDLE_EXIT_S = 600
MAX_STARTS_IN_A_ROW = 5
STEADY_S = 60.0
"""A child that lived this long did not fail at its start."""


class ChildService:
    """Exists on the broker's loop from `start` to the end of the process. `module`: run with Python and the arguments
    `words`. Raises AccessError for an access with a secret that no other process can read."""

    def __init__(self, module: str, listening: socket.socket, access: ClusterAccess, words: Sequence[str] = ()) -> None:
        self._module = module
        self._words = words
        self._listening = listening
        self._access = [f"{name}={text}" for name, text in access.properties().items()]
        self._failed_starts = 0
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        self._loop.add_reader(self._listening.fileno(), self._first_request)

    def _first_request(self) -> None:
        self._loop.remove_reader(self._listening.fileno())
        self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        descriptor = self._listening.fileno()
        started_s = self._loop.time()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            self._module,
            "--fd",
            str(descriptor),
            "--access",
            *self._access,
            "--idle-exit",
            str(IDLE_EXIT_S),
            *self._words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            pass_fds=(descriptor,),
            start_new_session=True,
        )
        try:
            await process.wait()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            raise
        self._failed_starts = 0 if self._loop.time() - started_s >= STEADY_S else self._failed_starts + 1
        if self._failed_starts < MAX_STARTS_IN_A_ROW:
            self.start()
