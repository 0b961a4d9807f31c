"""A history as a file of JSON lines, to which several processes may append while others read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from moldau.errors import MoldauError
from moldau.testing.history.events import Event

_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_encoder = msgspec.json.Encoder()
BEGIN = b'{"event":'
"""Of a line. It cannot stand inside one, where quotes are escaped."""


class HistoryError(MoldauError, ValueError):
    """A line that belongs to no history; the message names file and line."""

    __module__ = "moldau.testing.history"


class HistoryFile:
    """The events of a file, read anew by each iteration.

    What a killed process left of a line is passed over, at the end of the file or in front of the next line. Any other
    line that cannot be read raises HistoryError.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __iter__(self) -> Iterator[Event]:
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    return
                try:
                    yield _decoded(line)
                except msgspec.MsgspecError as error:
                    raise HistoryError(f"{self.path}:{number}: {error}") from None


def _decoded(line: bytes) -> Event:
    """Raises MsgspecError."""
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError:
        return _decoder.decode(line[max(0, line.rfind(BEGIN)) :])


class Appender:
    """Appends lines. Each is one write of the operating system, so the lines of several processes of one machine do not
    mix; but Linux leaves a line half written that ends on another page than it begins when its writer is killed."""

    def __init__(self, path: str | Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def append(self, event: Event) -> None:
        """Writes one event as one line. It is in the page cache then, and not flushed."""
        os.write(self._descriptor, _encoder.encode(event) + b"\n")

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)
