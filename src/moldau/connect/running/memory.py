"""The bound of a task's memory."""

from __future__ import annotations

import resource
from typing import Final

from moldau.errors import MoldauError

CHECK_EVERY_ROWS: Final = 1_000
_PAGE: Final = resource.getpagesize()


class MemoryLimitError(MoldauError):
    """The task has more resident memory than `task.memory.max.mb`."""


def check_memory(most_mb: int) -> None:
    """Raises MemoryLimitError. Does nothing where the system has no /proc."""
    found_mb = resident_mb()
    if found_mb is not None and found_mb > most_mb:
        raise MemoryLimitError(
            f"the task has {found_mb} MiB of memory, and task.memory.max.mb is {most_mb}: "
            "read or write fewer rows at once (batch.max.rows, batch.max.bytes), or raise the limit"
        )


def resident_mb() -> int | None:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE >> 20
    except OSError:
        return None
