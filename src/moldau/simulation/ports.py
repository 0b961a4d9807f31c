"""The clock and the disk of one simulated process. Each stops calls of a dead process.

A crash may be planned for the nth change that the process makes on its disk. The process dies inside that call, after
none, all, or the first pages of the write. The interesting crashes are between a segment and its index, or between a
file and its name.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from random import Random

from moldau.errors import StorageFullError
from moldau.ports import Disk, File
from moldau.shell.io.forwarded_reads import ForwardedReads
from moldau.shell.io.simulated.clock import DEFAULT_NOW_MS
from moldau.simulation.loop import ProcessKilledError, SimulatedProcess, VirtualLoop
from moldau.simulation.trace import Trace
from moldau.types import Buffer

PAGE_BYTES = 4096


class SimulatedClock:
    """Both clocks follow the loop's clock. The wall clock may be ahead or behind by `skew_ms`, and drift by `drift_ppm`
    millionths."""

    __slots__ = ("_latest_ms", "_loop", "_skew_ms", "drift_ppm", "setback_ms")

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._skew_ms = 0
        self.drift_ppm = 0
        self._latest_ms = 0
        self.setback_ms = 0
        """The sum of all backward steps of the wall clock."""

    def now_ms(self) -> int:
        now_s = self._loop.time()
        return DEFAULT_NOW_MS + self._skew_ms + int(now_s * 1000) + int(now_s * self.drift_ppm / 1000)

    def set_off(self, skew_ms: int) -> None:
        """Sets the wall clock to `skew_ms` ahead of the loop's clock."""
        self._latest_ms = self.latest_ms()
        self.setback_ms += max(0, self._skew_ms - skew_ms)
        self._skew_ms = skew_ms

    def latest_ms(self) -> int:
        """The latest time that the wall clock ever showed."""
        return max(self._latest_ms, self.now_ms())

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1000)


class CrashPlan:
    """Kills the process inside its `changes_left`-th change of the disk from now, or from the first change that matches
    `begins_with`."""

    __slots__ = ("begins_with", "changes_left", "kill", "kind", "random")

    def __init__(
        self,
        changes_left: int,
        kind: str,
        random: Random,
        kill: Callable[[str], None],
        begins_with: re.Pattern[str] | None = None,
    ) -> None:
        self.changes_left = changes_left
        self.kind = kind
        self.random = random
        self.kill = kill
        self.begins_with = begins_with

    def is_due(self, change: str) -> bool:
        """Called for each change, with the operation and path."""
        if self.begins_with is not None and not self.begins_with.match(change):
            return False
        self.begins_with = None
        self.changes_left -= 1
        return self.changes_left <= 0


class ProcessDisk(ForwardedReads):
    """The Disk port of one process on the machine's disk. Records each change, and dies where planned."""

    def __init__(self, disk: Disk, process: SimulatedProcess, trace: Trace) -> None:
        super().__init__(disk)
        self._process = process
        self._trace = trace
        self.plan: CrashPlan | None = None
        self.is_aborted = False
        """The node promised to write nothing more."""
        self.on_write_after_abort: Callable[[str], None] = lambda path: None
        self.before_call: Callable[[], None] = lambda: None
        """A point at which work in a thread may pause."""

    def changing(
        self, what: str, path: str, data: Buffer = b"", write: Callable[[Buffer], object] | None = None
    ) -> None:
        """Called before each change. `write` gets the part of `data` that a dying process still writes."""
        self.before_call()
        if self._process.is_dead:
            raise ProcessKilledError(self._process.name)
        self._trace.note(what, path, len(data), zlib.crc32(data))
        if self.is_aborted and what == "append":
            self.on_write_after_abort(path)
        plan = self.plan
        if plan is None or not plan.is_due(f"{what} {path}"):
            return
        self.plan = None
        self._trace.tell(f"{plan.kind} crash of {self._process.name} inside {what} {path} of {len(data)} bytes")
        if write is not None and len(data):
            # a killed write has written all, nothing, or whole pages of the page cache
            pages = (len(data) + PAGE_BYTES - 1) // PAGE_BYTES
            written = min(len(data), plan.random.randrange(pages + 1) * PAGE_BYTES)
            if written:
                write(memoryview(data)[:written])
        plan.kill(plan.kind)
        raise ProcessKilledError(self._process.name)

    def check_alive(self) -> None:
        """Called before each read-only call."""
        self.before_call()
        self._process.check_alive()

    def open(self, path: str, *, create: bool = True) -> ProcessFile:
        if create and not self.disk.exists(path):
            self.changing("create", path)
        self.check_alive()
        return ProcessFile(self, self.disk.open(path, create=create))

    def make_directory(self, path: str) -> None:
        self.changing("make_directory", path)
        self.disk.make_directory(path)

    def remove(self, path: str) -> None:
        self.changing("remove", path)
        self.disk.remove(path)

    def remove_tree(self, path: str) -> None:
        self.changing("remove_tree", path)
        self.disk.remove_tree(path)

    def rename(self, old: str, new: str) -> None:
        self.changing("rename", f"{old} {new}")
        self.disk.rename(old, new)

    def flush_directory(self, path: str) -> None:
        self.changing("flush_directory", path)
        self.disk.flush_directory(path)

    def read_file(self, path: str) -> bytes:
        self.check_alive()
        return super().read_file(path)

    def lock(self, path: str) -> Callable[[], None]:
        """Held by this process. The end of the process releases it, as the operating system does."""
        self._process.check_alive()
        return self.disk.lock(path)

    def replace_file(self, path: str, data: bytes) -> None:
        """Takes the steps of the real disk, because other work may run between them."""
        temporary = path + ".tmp"
        file = self.open(temporary)
        try:
            file.truncate(0)
            file.write_at(0, data)
            file.flush()
        except StorageFullError:
            self.remove(temporary)
            raise
        finally:
            file.close()
        self.rename(temporary, path)
        self.flush_directory(path.rpartition("/")[0])


class ProcessFile:
    """A handle of a ProcessDisk."""

    __slots__ = ("_disk", "_file", "path")

    def __init__(self, disk: ProcessDisk, file: File) -> None:
        self._disk = disk
        self._file = file
        self.path = file.path

    def size(self) -> int:
        return self._file.size()

    def append(self, data: Buffer) -> int:
        self._disk.changing("append", self.path, data, self._file.append)
        return self._file.append(data)

    def write_at(self, position: int, data: Buffer) -> None:
        self._disk.changing("write", self.path, data, lambda part: self._file.write_at(position, part))
        self._file.write_at(position, data)

    def read(self, position: int, length: int) -> bytes:
        self._disk.check_alive()
        return self._file.read(position, length)

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        self._disk.check_alive()
        return self._file.read_cached(position, length)

    def truncate(self, size: int) -> None:
        self._disk.changing("truncate", self.path)
        self._file.truncate(size)

    def flush(self) -> None:
        self._disk.changing("flush", self.path)
        self._file.flush()

    def close(self) -> None:
        self._file.close()
