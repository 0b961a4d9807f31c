"""Assigns ports and logins to the pipeline boards of a served directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

LAST_PORT = 65_535


class Boards:
    """`host`, `port`: of the first board. Each pipeline has its own port from there on, and keeps it while its file
    exists. Port 0: each start takes any free port. `scheme`: for browsers. `words`: arguments for all runs, such as the
    file of logins, which each run reads itself."""

    def __init__(self, host: str, port: int, scheme: str = "http", words: Sequence[str] = ()) -> None:
        self._host = f"[{host}]" if ":" in host else host
        self._first = port
        self._scheme = scheme
        self._words = words
        self._ports: dict[Path, int] = {}

    def words(self, file: Path) -> list[str]:
        return ["--listen", f"{self._host}:{self._port(file)}", *self._words]

    def place(self, file: Path) -> tuple[str, int]:
        """Where a board of this process listens; port 0 for any free one."""
        return self._host.strip("[]"), self._port(file)

    def address(self, file: Path) -> str | None:
        """None if the port is known only after the start."""
        port = self._port(file)
        return f"{self._scheme}://{self._host}:{port}/" if port else None

    def leave(self, file: Path) -> None:
        """The file is gone and its run has stopped, so another pipeline may take the port."""
        self._ports.pop(file, None)

    def _port(self, file: Path) -> int:
        """The lowest port that no other pipeline has; 0, for any free port, if none is left."""
        if not self._first:
            return 0
        if file not in self._ports:
            taken = set(self._ports.values())
            free = (port for port in range(self._first, LAST_PORT + 1) if port not in taken)
            self._ports[file] = next(free, 0)
        return self._ports[file]
