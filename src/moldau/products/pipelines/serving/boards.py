"""Assigns ports and logins to the pipeline boards of a served directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

LAST_PORT = 65_535


class Boards:
    """`host`, `port`: of the first board. Each pipeline has a port of its own from there on, and keeps it as long as
    its file is there. Port 0: each start takes a free one. `scheme`: as a browser opens them; `words`: for all runs
    alike, such as the file of people, which each run reads by itself."""

    def __init__(self, host: str, port: int, scheme: str = "http", words: Sequence[str] = ()) -> None:
        self._host = f"[{host}]" if ":" in host else host
        self._first = port
        self._scheme = scheme
        self._words = words
        self._ports: dict[Path, int] = {}

    def words(self, file: Path) -> list[str]:
        return ["--listen", f"{self._host}:{self._port(file)}", *self._words]

    def address(self, file: Path) -> str | None:
        """None where it is known after the start alone."""
        port = self._port(file)
        return f"{self._scheme}://{self._host}:{port}/" if port else None

    def leave(self, file: Path) -> None:
        """The file is gone, and its run has stopped: another pipeline may have the port."""
        self._ports.pop(file, None)

    def _port(self, file: Path) -> int:
        """The lowest that no other pipeline has; a free one where there is none left."""
        if not self._first:
            return 0
        if file not in self._ports:
            taken = set(self._ports.values())
            free = (port for port in range(self._first, LAST_PORT + 1) if port not in taken)
            self._ports[file] = next(free, 0)
        return self._ports[file]
