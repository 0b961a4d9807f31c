"""Figures of the system about this process and its disk, for the metrics; complete on Linux only."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable


def process_stats() -> dict[str, float]:
    """The system's figures of this process, by Prometheus' names; unavailable ones are left out."""
    times = os.times()
    stats: dict[str, float] = {
        "process_cpu_seconds_total": times.user + times.system,
        "process_threads": threading.active_count(),
    }
    for name, read in _READERS.items():
        try:
            stats[name] = read()
        except (OSError, ValueError, ImportError, AttributeError):
            continue
    return stats


def _open_fds() -> int:
    return len(os.listdir("/proc/self/fd")) - 1  # without the descriptor that reads the directory


def _max_fds() -> int:
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _memory_pages(column: int) -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[column]) * os.sysconf("SC_PAGE_SIZE")


def _start_time_s() -> float:
    with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
        started_ticks = int(file.read().rpartition(")")[2].split()[19])
    with open("/proc/stat", encoding="ascii") as file:
        booted_s = next(int(line.split()[1]) for line in file if line.startswith("btime "))
    return booted_s + started_ticks / os.sysconf("SC_CLK_TCK")


_READERS: dict[str, Callable[[], float]] = {
    "process_open_fds": _open_fds,
    "process_max_fds": _max_fds,
    "process_resident_memory_bytes": lambda: _memory_pages(1),
    "process_virtual_memory_bytes": lambda: _memory_pages(0),
    "process_start_time_seconds": _start_time_s,
}


def disk_space(path: str) -> tuple[int, int] | None:
    """(total, free for us) bytes of the file system of `path`."""
    try:
        space = os.statvfs(path)
    except (OSError, AttributeError):
        return None
    return space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize
