"""A lease: only one driver runs a query on a checkpoint.

It is an operating system lock on a file in the query's checkpoint directory, which is released when its holder ends in
any way. It works on local file systems, and over NFS if locks work there.

The process that writes the batches may outlive its driver: the JVM of a killed driver by a moment, a process of a Spark
Connect server for longer. So the writer holds a lock too, on a second file. The JVM takes it when the query starts; a
driver with a JVM of its own starts when no other process has it. (The two files are locked in this order by everyone,
so one of two drivers sees the other.) On a server, the writing process takes it, and checks before each batch that its
driver is still the newest one. A driver on a server does not wait: Spark ends the older run of the query there, and the
new writer waits for the lock of the old one.

The lease file names its holder: the process id, and the machine or container in which that id is valid. If machines or
containers share the storage of a checkpoint, the holder may run elsewhere, and its process id means nothing here.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from moldau.errors import MoldauError
from moldau.spark.session.jvm_lock import JvmLock

if TYPE_CHECKING:
    from moldau.spark import SparkSession

LEASE_FILE = "driver.lease"
WRITER_FILE = "writer.lease"
WAIT_FOR_DYING_SECONDS = 30.0
_RETRY_SECONDS = 0.1
_SHARED = "shared"
MOST_WRITTEN_BYTES = 512
"""The most bytes of a lease file."""


class LeaseError(MoldauError):
    """Another driver runs on this checkpoint; the message names its process."""


class Holder(msgspec.Struct, frozen=True):
    """The process that runs a pipeline. `host`: the machine or container of the process id; None: ours. `is_shared`: it
    runs other pipelines too."""

    process: int
    host: str | None = None
    is_shared: bool = False

    def __str__(self) -> str:
        return f"process {self.process}" + (f" on {self.host}" if self.host is not None else "")


class Lease:
    """The right to run the query of a checkpoint directory, from the constructor's return to `release`. `token`:
    identifies this driver to a writer on a Spark Connect server."""

    def __init__(
        self,
        checkpoint: Path,
        *,
        is_shared: bool = False,
        beside_writers: bool = False,
        patience_seconds: float = WAIT_FOR_DYING_SECONDS,
    ) -> None:
        """Creates the directory. Raises LeaseError at once if the holder lives, or after `patience_seconds` if a
        process that writes for a driver that is gone is not. `is_shared`: this process runs other pipelines too.
        `beside_writers`: does not wait for writers on a Spark Connect server."""
        checkpoint.mkdir(parents=True, exist_ok=True)
        self._checkpoint = checkpoint
        self._is_shared = is_shared
        self._in_jvm: JvmLock | None = None
        self._file = _open(checkpoint / LEASE_FILE)
        try:
            self._lock(patience_seconds)
            self.withdraw()
            if not beside_writers:
                os.close(_wait_for_writer(checkpoint / WRITER_FILE, patience_seconds))
        except BaseException:
            os.close(self._file)
            raise

    def hold_in(self, spark: SparkSession) -> None:
        """Before the query starts: the session's JVM holds the writer's lock, which lasts until `release` or its end.
        Raises LeaseError."""
        try:
            self._in_jvm = JvmLock(spark, self._checkpoint / WRITER_FILE)
        except BlockingIOError:
            raise LeaseError(f"another process writes to the checkpoint {self._checkpoint}") from None

    def withdraw(self) -> None:
        """Stops the writer on a Spark Connect server before its next batch."""
        self.token = uuid4().hex
        words = [os.getpid(), self.token, _where_we_count(), socket.gethostname(), *([_SHARED] * self._is_shared)]
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{' '.join(map(str, words))}\n".encode(), 0)

    def release(self, *, still_writes: bool = False) -> None:
        """`still_writes`: the query could not be stopped, so the JVM keeps its lock until it ends."""
        if self._file < 0:
            return
        if self._in_jvm is not None and not still_writes:
            self._in_jvm.release()
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


@contextmanager
def leases_below(directory: Path, queries: Iterable[Path]) -> Iterator[None]:
    """The leases of a whole pipeline: of `queries`, and of all other queries that have run in `directory`, the
    pipeline's checkpoint. Raises LeaseError."""
    with ExitStack() as stack:
        for checkpoint in dict.fromkeys([*queries, *(file.parent for file in _lease_files(directory))]):
            stack.enter_context(Lease(checkpoint))
        yield


class WriterLease:
    """The right of a Spark Connect server's process to write the batches of one query, until `release` or the end of
    the process."""

    def __init__(self, checkpoint: Path, token: str, *, patience_seconds: float = WAIT_FOR_DYING_SECONDS) -> None:
        """`checkpoint`: of the query. `token`: of the driver's lease on it. Raises LeaseError if another process writes
        for longer than `patience_seconds`, or if `check` does."""
        self._driver = checkpoint / LEASE_FILE
        self._token = token
        self._file = _wait_for_writer(checkpoint / WRITER_FILE, patience_seconds)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
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
    """The process that runs a query of a pipeline; None without one. `checkpoint`: of the pipeline. A process elsewhere
    counts as running while it holds the lock."""
    return next((holder for file in _lease_files(checkpoint) if (holder := _holder_of(file)) is not None), None)


def wait_for_last_writer(checkpoint: Path, patience_seconds: float) -> None:
    """Returns when the process that last wrote batches has ended, or after that time. `checkpoint`: of a query that ran
    on this machine."""
    file = _open_to_look(checkpoint / WRITER_FILE)
    try:
        process = _read(file).process
    finally:
        os.close(file)
    deadline = time.monotonic() + patience_seconds
    while _is_alive(process) and time.monotonic() < deadline:
        time.sleep(_RETRY_SECONDS)


def _holder_of(path: Path) -> Holder | None:
    try:
        file = _open_to_look(path)
    except FileNotFoundError:
        return None
    try:
        written = _read(file)
        host = written.host()
        if _try_lock(file) or (host is None and not _is_alive(written.process)):
            return None
        return Holder(int(written.process), host, written.is_shared == _SHARED)
    finally:
        os.close(file)


def _lease_files(checkpoint: Path) -> list[Path]:
    """Of a pipeline's queries: each query has its own directory, or is the only one."""
    return [*checkpoint.glob(LEASE_FILE), *sorted(checkpoint.glob(f"*/{LEASE_FILE}"))]


def _wait_for_writer(path: Path, patience_seconds: float) -> int:
    """The file, whose lock this process holds until it closes it. Raises LeaseError."""
    file = _open(path)
    try:
        deadline = time.monotonic() + patience_seconds
        while not _try_lock_as_jvm(file):
            if time.monotonic() > deadline:
                raise LeaseError(
                    f"process {_read(file).process or '(unknown)'} still writes to the checkpoint {path.parent} for a "
                    "driver that is gone: end it, or, if it is of a Spark Connect server, start the pipeline there "
                    "again and stop it"
                )
            time.sleep(_RETRY_SECONDS)
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


def _try_lock_as_jvm(file: int) -> bool:
    """A lock of the process, not of the open file, as those of Java."""
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


class _Written(msgspec.Struct, frozen=True):
    """The content of a lease file, as far as it is written. `counts_in`: where the process id is valid."""

    process: str = ""
    token: str = ""
    counts_in: str = ""
    host_name: str = ""
    is_shared: str = ""

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
