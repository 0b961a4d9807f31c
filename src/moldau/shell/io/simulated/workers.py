"""Workers without threads, for tests of one decision: the work runs in place. The simulator has separate workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class InlineWorkers:
    """Runs each piece of work at once, on the loop."""

    __slots__ = ()

    async def run(self, work: Callable[[], T]) -> T:
        return work()

    async def drain(self) -> None:
        """Nothing is ever in progress."""

    def close(self) -> None:
        """Nothing waits, so there is nothing to stop."""
