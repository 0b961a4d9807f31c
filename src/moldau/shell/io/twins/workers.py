"""Workers without threads: the work runs in place, so that a simulation stays one sequence of events."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class InlineWorkers:
    """Runs each piece of work at once, on the loop."""

    __slots__ = ()

    async def run(self, work: Callable[[], T]) -> T:
        return work()

    def close(self) -> None:
        """Nothing waits, so nothing is to be stopped."""
