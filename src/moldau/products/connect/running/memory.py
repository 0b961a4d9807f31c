"""The memory of a task: of its process, and of those that it has started, such as Spark's JVM."""

from __future__ import annotations

import resource
from pathlib import Path

_PAGE_BYTES = resource.getpagesize()
_PSS = "Pss:"
_UNIT_BYTES = 1024
"""In smaps_rollup."""


def memory_bytes(process_id: int) -> int | None:
    """Resident memory. Of several processes, pages that they share count once (proportional set size). None where the
    system does not tell it."""
    tree = _tree(process_id)
    if len(tree) == 1:
        return _resident(process_id)
    found = [size for one in tree if (size := _proportional(one)) is not None]
    return sum(found) if found else None


def _tree(process_id: int) -> list[int]:
    """The process and its descendants; the process alone where the system does not tell them."""
    tree = [process_id]
    for one in tree:  # it grows
        for file in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                tree += map(int, file.read_text("ascii").split())
            except OSError:
                continue  # the thread has ended
    return tree


def _resident(process_id: int) -> int | None:
    try:
        return int(Path(f"/proc/{process_id}/statm").read_text("ascii").split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return None


def _proportional(process_id: int) -> int | None:
    try:
        lines = Path(f"/proc/{process_id}/smaps_rollup").read_text("ascii").splitlines()
    except OSError:
        return _resident(process_id)
    sizes = [int(line.split()[1]) for line in lines if line.startswith(_PSS)]
    return sizes[0] * _UNIT_BYTES if sizes else None
