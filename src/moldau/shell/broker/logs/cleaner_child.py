"""The process that cleans one log: reads a job from its standard input, and writes the outcome to its output.

It reads sealed segments and writes `.cleaned` files with its own nonce. It renames and removes no files. It ends with
its parent: Linux kills it with the thread that started it, and on every system it checks between two steps whether the
parent still holds the other end of its input. The size of the key map bounds its memory, and the system enforces the
total.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator

import msgspec

from moldau.core.log.cleaning.compaction import CompactionPlan, CompactionResult, compact, flush_cleaned
from moldau.errors import ProtocolError, StorageFailedError, StorageFullError
from moldau.ports import Disk
from moldau.shell.io.disk import OsDisk

NICENESS = 10
"""Other processes, which clients wait for, go first."""
BESIDE_MAP_BYTES = 768 << 20
"""The memory that the process may use in addition to the map: Python itself, buffers, and one batch of 128 MiB,
expanded and rebuilt."""
_SET_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


class CleaningJob(msgspec.Struct, frozen=True):
    """`root`: the log directory. `max_bytes_per_second`: reads and writes together; 0: no limit."""

    root: str
    plan: CompactionPlan
    max_bytes_per_second: float
    parent_process_id: int


class CleaningOutcome(msgspec.Struct, frozen=True):
    """`result`, or the problem: "damaged" (a batch), "gone" (a file), "full" or "failed" (the disk)."""

    result: CompactionResult | None = None
    problem: str = ""
    message: str = ""


class PacedRound:
    """A round at `log.cleaner.io.max.bytes.per.second`: iterates over its steps, and yields after each the seconds to
    rest. `result` is set after the last step. A step raises as `compact`."""

    def __init__(
        self, disk: Disk, plan: CompactionPlan, max_bytes_per_second: float, now_s: Callable[[], float]
    ) -> None:
        self.result: CompactionResult
        self._disk = disk
        self._plan = plan
        self._rate = max_bytes_per_second
        self._now_s = now_s

    def __iter__(self) -> Iterator[float]:
        begin_s, byte_count = self._now_s(), 0
        for step_bytes in self._steps():
            byte_count += step_bytes
            if self._rate <= 0:
                yield 0.0
            else:
                yield max(0.0, byte_count / self._rate - (self._now_s() - begin_s))

    def _steps(self) -> Iterator[int]:
        self.result = yield from compact(self._disk, self._plan)


ROUND_ERRORS = (OSError, ProtocolError, StorageFullError, StorageFailedError, ValueError)
"""The errors that a round may end with, see outcome_of."""


def outcome_of(error: Exception) -> CleaningOutcome:
    """The outcome of a round that raised `error`. Raises `error` again unless it is one of ROUND_ERRORS."""
    if isinstance(error, FileNotFoundError):
        return CleaningOutcome(problem="gone", message=str(error))
    if isinstance(error, StorageFullError):
        return CleaningOutcome(problem="full", message=str(error))
    if isinstance(error, StorageFailedError):
        return CleaningOutcome(problem="failed", message=str(error))
    if isinstance(error, (ProtocolError, ValueError)):
        return CleaningOutcome(problem="damaged", message=str(error))
    raise error


def run_job(job: CleaningJob) -> CleaningOutcome:
    """Runs and flushes the whole round. Exits if the parent has ended."""
    disk = OsDisk(job.root)
    paced = PacedRound(disk, job.plan, job.max_bytes_per_second, time.monotonic)
    try:
        for pause_s in paced:
            if select.select([0], [], [], pause_s)[0]:
                sys.exit(1)  # the parent writes nothing more, so the input was closed
        flush_cleaned(disk, job.plan, paced.result)
    except ROUND_ERRORS as error:
        return outcome_of(error)
    return CleaningOutcome(result=paced.result)


def die_with(parent_process_id: int) -> None:
    """Ends this process with its parent. Linux sends a signal; on other systems the end of the input shows it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent_process_id:
        sys.exit(1)


def bound_memory(map_bytes: int) -> None:
    """Limits the memory of this process to its key map and BESIDE_MAP_BYTES. Without effect on Windows."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limit = map_bytes + BESIDE_MAP_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def read_line(descriptor: int) -> bytes:
    """One line from a pipe, with its line end; less if the pipe ends before."""
    parts = []
    while True:
        part = os.read(descriptor, 1 << 16)
        parts.append(part)
        if not part or part.endswith(b"\n"):
            return b"".join(parts)


def main() -> int:
    """The entry point of the child process: see `cleaner_process`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the broker, which ends this process
    line = read_line(0)
    if not line.endswith(b"\n"):
        return 1
    job = msgspec.json.decode(line, type=CleaningJob)
    die_with(job.parent_process_id)
    os.nice(NICENESS)
    bound_memory(job.plan.dedupe_buffer_bytes)
    outcome = run_job(job)
    os.write(1, msgspec.json.encode(outcome))
    return 0


if __name__ == "__main__":
    sys.exit(main())
