"""Ctrl-C ends the query that is shown, not the shell."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any


class Interrupts:
    """Takes SIGINT within the context. The first one sets `is_pressed`; a second one raises KeyboardInterrupt, for work
    that does not look. Only in the main thread."""

    def __init__(self) -> None:
        self.is_pressed = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        self.is_pressed = False
        self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.is_pressed:
            raise KeyboardInterrupt
        self.is_pressed = True
