"""Rows that someone reads, from a thread that makes them: a query of Spark, or a reader of a topic.

The buffer between the two is bounded: its maker waits for the reader. A reader who reads nothing for long loses the
query.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from moldau.errors import MoldauError
from moldau.products.sql.engine.answers import ChangedRow

MOST_ROWS = 1_000
"""In the buffer."""
MOST_IDLE_S = 600.0
"""How long a full buffer waits for its reader."""


class RowsEndedError(MoldauError):
    """The query has failed, or its reader read nothing for too long."""


class StoppedReading(Exception):
    """Ends the maker: nobody reads the rows any more, or they are enough."""


class BufferedRows:
    """A RowStream. `make` runs in a thread of its own, and calls `put` for its rows."""

    def __init__(
        self,
        query_id: str,
        columns: Sequence[tuple[str, str]],
        key: Sequence[str],
        *,
        limit: int | None = None,
        idle_s: float = MOST_IDLE_S,
    ) -> None:
        """`limit`: the rows after which it is over."""
        self.query_id = query_id
        self.columns: tuple[tuple[str, str], ...] = tuple(columns)
        self.key: tuple[str, ...] = tuple(key)
        self._left = limit
        self._idle_s = idle_s
        self._rows: deque[ChangedRow] = deque()
        self._changed = threading.Condition()
        self._has_ended = False
        self._error: str | None = None
        self._on_close: list[Callable[[], object]] = []

    # --- for the reader

    def read(self, most: int, timeout_s: float) -> Sequence[ChangedRow]:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not self._rows and not self._has_ended:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
            found = [self._rows.popleft() for _ in range(min(most, len(self._rows)))]
            self._changed.notify_all()
            if not found and self._error is not None:
                raise RowsEndedError(self._error)
            return found

    @property
    def is_over(self) -> bool:
        with self._changed:
            return self._has_ended and not self._rows and self._error is None

    def close(self) -> None:
        """Also ends its maker."""
        with self._changed:
            self._rows.clear()
            self._left = 0
            self._has_ended = True
            self._changed.notify_all()
        while self._on_close:
            self._on_close.pop()()

    def on_close(self, action: Callable[[], object]) -> None:
        self._on_close.append(action)

    # --- for the maker

    def put(self, rows: Iterable[ChangedRow]) -> None:
        """Waits while the buffer is full. Raises StoppedReading."""
        for row in rows:
            with self._changed:
                if self._left is not None and self._left <= 0:
                    raise StoppedReading
                if not self._changed.wait_for(lambda: len(self._rows) < MOST_ROWS or self._has_ended, self._idle_s):
                    self._error = f"nobody has read its rows for {self._idle_s:g} s"
                    self._has_ended = True
                    self._rows.clear()
                    self._changed.notify_all()
                if self._has_ended:
                    raise StoppedReading
                self._rows.append(row)
                if self._left is not None:
                    self._left -= 1
                self._changed.notify_all()
        self.check()

    def check(self) -> None:
        """Raises StoppedReading if no row is wanted any more."""
        with self._changed:
            if self._has_ended or self._left == 0:
                raise StoppedReading

    def wait(self, seconds: float) -> None:
        """Waits for so long, or until nobody reads any more. Raises StoppedReading then."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_ended, seconds)
        self.check()

    def end(self, error: str | None = None) -> None:
        with self._changed:
            self._has_ended = True
            self._error = self._error or error
            self._changed.notify_all()

    def make(self, action: Callable[[], None], explain: Callable[[Exception], str]) -> None:
        """Runs `action` in a thread. `explain`: a sentence about its error."""

        def run() -> None:
            try:
                action()
            except StoppedReading:
                self.end()
            except Exception as error:  # Spark raises errors of many classes, and the reader is told
                self.end(explain(error))
            else:
                self.end()

        threading.Thread(target=run, name=f"sql-rows-{self.query_id}", daemon=True).start()
