"""The events in order: the last ones for people, and a hash of all of them to compare two runs."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable

KEPT_EVENTS = 60


class Trace:
    """The story of a run. Two runs of a seed are equal if their `digest` is.

    An event is a word with values of type int, str or bytes, whose text contains no address and no hash order.
    """

    __slots__ = ("_crc", "_now", "count", "is_every_event_told", "last", "told", "write_line")

    def __init__(self, now: Callable[[], float], write_line: Callable[[str], None] | None = None) -> None:
        self._now = now
        self._crc = 0
        self.count = 0
        self.last: deque[tuple[float, str, tuple[object, ...]]] = deque(maxlen=KEPT_EVENTS)
        self.told: deque[str] = deque(maxlen=KEPT_EVENTS)
        self.write_line = write_line
        self.is_every_event_told = False

    def note(self, word: str, *values: object) -> None:
        """Adds a small event (delivered bytes, a call on the disk) to the hash and to the story of a violation."""
        now = self._now()
        self.count += 1
        self._crc = zlib.crc32(f"{now:.9f} {word} {values}".encode(), self._crc)
        self.last.append((now, word, values))
        if self.is_every_event_told and self.write_line is not None:
            self.write_line(f"{now:10.4f}      {word} {' '.join(map(str, values))}")

    def tell(self, line: str) -> None:
        """Adds an event that a reader of the run should see, such as a crash, a fault or an important response."""
        self.note("tell", line)
        text = f"{self._now():10.4f}  {line}"
        self.told.append(text)
        if self.write_line is not None:
            self.write_line(text)

    @property
    def digest(self) -> str:
        return f"{self.count}-{self._crc:08x}"

    def last_lines(self) -> list[str]:
        """The newest events as text, oldest first."""
        return [f"{now:10.4f}  {word} {' '.join(map(str, values))}" for now, word, values in self.last]
