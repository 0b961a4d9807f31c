"""The users who may read the metrics of a node: `moldau.http.users.file`, with a line NAME=SHA256 for each secret. A
name may have two lines while its secret is changed. `/live` and `/ready` are open, because supervisors' probes have no
secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.errors import KafkaError, kafka_error
from moldau.transport.http_authorization import is_digest, name_of, parse_authorization
from moldau.transport.secrets import read_text

if TYPE_CHECKING:
    from moldau.shell.network.event_log import EventLog

SETTING = "moldau.http.users.file"
OPEN_PATHS = ("/live", "/ready")
MAX_LINES = 1_000


class HttpUsers:
    """`path`: the file, which is read again after it has changed. Raises INVALID_CONFIG."""

    def __init__(self, path: str, log: EventLog) -> None:
        self._path = path
        self._log = log
        self._stamp = _stamp(path)
        self._users = _read(path)

    def admits(self, path: str, headers: list[str]) -> bool:
        """See Admitting."""
        if path in OPEN_PATHS:
            return True
        self._look()
        given = parse_authorization(headers)
        return given is not None and name_of(given, self._users) is not None

    def _look(self) -> None:
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._users = _read(self._path)
        except KafkaError as error:
            self._log.warn("users of /metrics", f"those known before stay: {error.message or error.name}")


def _read(path: str) -> Mapping[str, Sequence[bytes]]:
    found: dict[str, list[bytes]] = {}
    lines = read_text(path, SETTING).splitlines()
    if len(lines) > MAX_LINES:
        raise kafka_error("INVALID_CONFIG", f"{SETTING}: {path} has more than {MAX_LINES} lines")
    for number, line in enumerate(lines, 1):
        name, equals, digest = (part.strip() for part in line.partition("="))
        if not line.strip() or name.startswith("#"):
            continue
        if not equals or not name or not is_digest(digest):
            told = f"{SETTING}: line {number} of {path} is not NAME=SHA256, as `moldau machine NAME` prints it"
            raise kafka_error("INVALID_CONFIG", told)
        found.setdefault(name, []).append(bytes.fromhex(digest))
    if not found:
        raise kafka_error("INVALID_CONFIG", f"{SETTING}: {path} names nobody")
    return found


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
