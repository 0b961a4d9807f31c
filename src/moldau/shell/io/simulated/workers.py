"""Workers without threads, for tests of one decision: the work runs in place. The simulator has workers of its own."""

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
        """Nothing is ever under way."""

    def close(self) -> None:
        """Nothing waits, so nothing is to be stopped."""
