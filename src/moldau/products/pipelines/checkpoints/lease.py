"""A lease: only one driver runs on a checkpoint.

It is an operating system lock on a file in the checkpoint directory, which is released when its last holder ends in any
way. The driver's JVM inherits the open file, because it outlives a killed driver by a moment and may still be writing.
The next driver waits until the JVM has ended too. The lease works on local file systems, and over NFS if locks work
there.

A query on a Spark Connect server outlives its driver for longer. So the server process that writes its batches holds a
separate lock, and checks before each batch that its driver is still the newest one. A driver with its own JVM starts
when no such process is left. (Each of the two first takes its own lock and then checks the other's, so one of them sees
the other.) A driver on a server does not wait: Spark ends the older run of the query there, and the new writer waits
for the lock of the old one.

The lease file names its holder: the process id, and the machine or container in which that id is valid. If machines or
containers share the storage of a checkpoint, the holder may run elsewhere, and its process id means nothing here.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from pathlib import Path
from uuid import uuid4

import msgspec

from moldau.errors import MoldauError

LEASE_FILE = "driver.lease"
WRITER_FILE = "writer.lease"
WAIT_FOR_DYING_SECONDS = 30.0
_RETRY_SECONDS = 0.1
MOST_WRITTEN_BYTES = 512
"""The most bytes of a lease file."""


class LeaseError(MoldauError):
    """Another driver runs on this checkpoint; the message names its process."""


class Holder(msgspec.Struct, frozen=True):
    """The process that runs a pipeline. `host`: the machine or container of the process id; None: ours."""

    process: int
    host: str | None = None

    def __str__(self) -> str:
        return f"process {self.process}" + (f" on {self.host}" if self.host is not None else "")


class Lease:
    """The right to run on a checkpoint directory, from the constructor's return to `release`. `token`: identifies this
    driver to a writer on a Spark Connect server."""

    def __init__(
        self, checkpoint: Path, *, beside_writers: bool = False, patience_seconds: float = WAIT_FOR_DYING_SECONDS
    ) -> None:
        """Creates the directory. Raises LeaseError at once if the holder lives, or after `patience_seconds` if the
        holder is gone but a process that it started is not. `beside_writers`: does not wait for writers on a Spark
        Connect server."""
        checkpoint.mkdir(parents=True, exist_ok=True)
        self._checkpoint = checkpoint
        self._file = _open(checkpoint / LEASE_FILE)
        try:
            self._lock(patience_seconds)
            self.withdraw()
            for path in () if beside_writers else _writers_below(checkpoint):
                os.close(_wait_for_writer(path, patience_seconds))
        except BaseException:
            os.close(self._file)
            raise

    def fileno(self) -> int:
        """The file that the JVM inherits."""
        return self._file

    def withdraw(self) -> None:
        """Stops all current writers before their next batch."""
        self.token = uuid4().hex
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()} {self.token} {_where_we_count()} {socket.gethostname()}\n".encode(), 0)

    def release(self) -> None:
        """Closes our end; the lock is released with the last process that has the file open."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _lock(self, patience_seconds: float) -> None:
        deadline = time.monotonic() + patience_seconds
        while not _try_lock(self._file):
            written = _read(self._file)
            # whether a process elsewhere lives cannot be seen here
            if (written.host() is None and _is_alive(written.process)) or time.monotonic() > deadline:
                raise LeaseError(f"{written} runs a pipeline on the checkpoint {self._checkpoint}")
            time.sleep(_RETRY_SECONDS)


class WriterLease:
    """The right of a Spark Connect server's process to write the batches of one query, until `release` or the end of
    the process."""

    def __init__(
        self, query: Path, driver: Path, token: str, *, patience_seconds: float = WAIT_FOR_DYING_SECONDS
    ) -> None:
        """`query`, `driver`: the checkpoints of the query and of its pipeline. `token`: of the driver's lease. Raises
        LeaseError if another process writes for longer than `patience_seconds`, or if `check` does."""
        self._driver = driver / LEASE_FILE
        self._token = token
        self._file = _wait_for_writer(query / WRITER_FILE, patience_seconds)
        try:
            self.check()
        except BaseException:
            self.release()
            raise

    def check(self) -> None:
        """Raises LeaseError if the driver ends, or another driver has taken over."""
        file = _open(self._driver)
        try:
            written = _read(file)
        finally:
            os.close(file)
        if written.token != self._token:
            raise LeaseError(f"no batch is begun any more: {written} has the checkpoint, or gives it back")

    def release(self) -> None:
        os.close(self._file)


def holder_of(checkpoint: Path) -> Holder | None:
    """The process that runs a pipeline on the checkpoint; None without one. A process elsewhere counts as running while
    it, or a process that it started, holds the lock."""
    try:
        file = _open_to_look(checkpoint / LEASE_FILE)
    except FileNotFoundError:
        return None
    try:
        written = _read(file)
        host = written.host()
        if _try_lock(file) or (host is None and not _is_alive(written.process)):
            return None
        return Holder(int(written.process), host)
    finally:
        os.close(file)


def _writers_below(checkpoint: Path) -> list[Path]:
    """The writer files of a pipeline's queries: each query has its own directory, or is the only one."""
    return [*checkpoint.glob(WRITER_FILE), *checkpoint.glob(f"*/{WRITER_FILE}")]


def _wait_for_writer(path: Path, patience_seconds: float) -> int:
    """The file, whose lock this process holds until it closes it. Raises LeaseError."""
    file = _open(path)
    try:
        deadline = time.monotonic() + patience_seconds
        while not _try_lock(file):
            if time.monotonic() > deadline:
                raise LeaseError(
                    f"a query on the checkpoint {path.parent} runs on a Spark Connect server, in its process "
                    f"{_read(file).process}: start the pipeline there again and stop it, or stop the server"
                )
            time.sleep(_RETRY_SECONDS)
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
    except BaseException:
        os.close(file)
        raise
    return file


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _open_to_look(path: Path) -> int:
    """Also works for a user with read access only. (Over NFS, a file that is open only for reading cannot be
    locked.)"""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except PermissionError:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _Written(msgspec.Struct, frozen=True):
    """The content of a lease file, as far as it is written. `counts_in`: where the process id is valid."""

    process: str = ""
    token: str = ""
    counts_in: str = ""
    host_name: str = ""

    def host(self) -> str | None:
        """As in `Holder`."""
        if not (self.process.isdigit() and self.counts_in) or self.counts_in == _where_we_count():
            return None
        is_ours = self.host_name == socket.gethostname()
        return f"{self.host_name}, in another container" if is_ours else self.host_name

    def __str__(self) -> str:
        return str(Holder(int(self.process), self.host())) if self.process.isdigit() else "process (unknown)"


def _read(file: int) -> _Written:
    words = os.pread(file, MOST_WRITTEN_BYTES, 0).decode("ascii", "replace").split()
    return _Written(*words[: len(_Written.__struct_fields__)])


def _where_we_count() -> str:
    """The scope of process ids: a machine since its start, or a container on it (a PID namespace, on Linux). Two
    processes with the same result can use each other's ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return socket.gethostname()


def _is_alive(process_id: str) -> bool:
    if not process_id.isdigit():
        return False
    try:
        os.kill(int(process_id), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
