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
"""The begin of a line. It cannot occur inside a line, where quotes are escaped."""


class HistoryError(MoldauError, ValueError):
    """A line that belongs to no history. The message names file and line."""

    __module__ = "moldau.testing.history"


class HistoryFile:
    """The events of a file. Each iteration reads the file again.

    Skips a partial line of a killed process, at the end of the file or before the next line. Raises HistoryError for
    any other unreadable line.
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
    """Appends lines. Each line is one write call, so lines of several processes on one machine do not mix. However, if
    the writer is killed, Linux may leave a line half written when the line crosses a memory page."""

    def __init__(self, path: str | Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def append(self, event: Event) -> None:
        """Writes one event as one line to the page cache, without a flush."""
        os.write(self._descriptor, _encoder.encode(event) + b"\n")

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)
