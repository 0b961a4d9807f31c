"""The ports: clock, randomness, disk, threads and network. Each has a real and a simulated implementation.

Real: `moldau.shell.io`. Simulated: `moldau.shell.io.simulated`. Code below `shell` uses the operating system only
through ports. All paths for `Disk` are relative, with "/" between parts, below the root of the port. A path that would
leave the root raises ValueError (nothing from the network becomes a path).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from moldau.types import Buffer

T = TypeVar("T")


class Clock(Protocol):
    """Two clocks: wall time for records and retention, steady time for deadlines."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch. An operator may set it back."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds of steady time, which never goes back."""
        ...


class Random(Protocol):
    """The source of all random choices, so that a seed repeats a run."""

    def random_bytes(self, count: int) -> bytes:
        """`count` random bytes."""
        ...

    def random_below(self, bound: int) -> int:
        """A random integer in [0, bound)."""
        ...


class LaterBytes(Protocol):
    """Bytes of a response that stay on the disk until the receiver takes them."""

    def __len__(self) -> int: ...

    def next_piece(self, max_bytes: int, then: Callable[[Buffer | None], None]) -> Buffer | None:
        """The next bytes, or None if they must wait for the disk. Then `then` is called with them later, or with None
        if they are unreadable."""
        ...


FLUSH_FAILED_MARK = ".moldau_flush_failed"
"""A file in the root of a log directory: a flush failed, so that the page cache holds pages that the system counts as
clean and the disk does not have (docs/decisions/0023)."""


class File(Protocol):
    """One open file. Errors: StorageFullError (nothing of the write remains), StorageFailedError."""

    path: str

    def size(self) -> int:
        """The length in bytes, appends included."""
        ...

    def append(self, data: Buffer) -> int:
        """Writes all of `data` at the end, into the page cache, and returns its position."""
        ...

    def write_at(self, position: int, data: Buffer) -> None:
        """Writes inside or at the end of the file (indexes, checkpoints)."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes. May wait for the disk: for starts and Workers, not for the event loop."""
        ...

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        """As `read` if the page cache has all bytes, else None. Never waits.

        A bytearray if the system fills our buffer: one copy less for each fetch.
        """
        ...

    def truncate(self, size: int) -> None:
        """Cuts the file to `size` bytes. A shorter file is filled up with zeros."""
        ...

    def flush(self) -> None:
        """fsync. Waits: call it in Workers, or at start and stop. Raises StorageFailedError; never retry.

        Before it raises, it creates FLUSH_FAILED_MARK in the root of the disk, with the path of this file.
        """
        ...

    def close(self) -> None:
        """Closes the file without a flush. Work of Workers on it still completes."""
        ...


class Disk(Protocol):
    """A log directory. Calls use only the page cache, unless they say otherwise."""

    @property
    def directory(self) -> str | None:
        """Where another process finds the files. None: only this object reaches them."""
        ...

    def open(self, path: str, *, create: bool = True) -> File:
        """Opens for reading and writing. FileNotFoundError if it is absent and `create` is False."""
        ...

    def exists(self, path: str) -> bool:
        """Whether the file or directory exists."""
        ...

    def is_directory(self, path: str) -> bool:
        """Whether it is a directory."""
        ...

    def list_directory(self, path: str) -> list[str]:
        """The names inside, sorted. An absent directory is empty."""
        ...

    def make_directory(self, path: str) -> None:
        """Creates the directory and its parents. An existing one is no error."""
        ...

    def remove(self, path: str) -> None:
        """Removes a file. An absent one is no error."""
        ...

    def remove_tree(self, path: str) -> None:
        """Removes a directory with its content. An absent one is no error."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Renames a file or directory. Atomic; durable only after `flush_directory` of the parents."""
        ...

    def flush_directory(self, path: str) -> None:
        """fsync of the directory itself (names). Waits, as File.flush."""
        ...

    def read_file(self, path: str) -> bytes:
        """The content of a file. Raises FileNotFoundError if absent."""
        ...

    def replace_file(self, path: str, data: bytes) -> None:
        """Writes `path` as a whole: temporary file, fsync, rename, fsync of the directory. Waits."""
        ...

    def lock(self, path: str) -> Callable[[], None]:
        """Locks the file `path` against other processes and nodes. Call the result to unlock; the end of the process
        does too.

        The call may remove the file.

        Raises BlockingIOError if another process has the lock.
        """
        ...


class Workers(Protocol):
    """Threads for work that releases the GIL: fsync, compression, cold reads. Bounded. Simulated: in virtual time."""

    async def run(self, work: Callable[[], T]) -> T:
        """Runs `work` off the loop and returns its result or raises its error. Started work completes even if its
        caller is cancelled."""
        ...

    async def drain(self) -> None:
        """Returns when no work runs any more, also of cancelled callers."""
        ...

    def close(self) -> None:
        """Waits for running work, and drops the rest."""
        ...


class Stream(Protocol):
    """One connection of a client. Every call waits at most `timeout_ms`, then raises TimeoutError. A lost connection is
    another OSError."""

    def send(self, data: Buffer, timeout_ms: int) -> None:
        """Writes all of `data`."""
        ...

    def receive(self, max_bytes: int, timeout_ms: int) -> bytes:
        """The received bytes, at least one. b"": the other side has closed the connection."""
        ...

    def receive_into(self, target: memoryview, timeout_ms: int) -> int:
        """As `receive`, into the caller's memory. Returns the number of bytes."""
        ...

    def fileno(self) -> int:
        """The descriptor of the socket, for waiting until it can be read."""
        ...

    def has_ended(self) -> bool:
        """Whether the end of the connection or unrequested bytes have arrived. Does not wait."""
        ...

    def close(self) -> None:
        """Closes the connection. Unreceived bytes are dropped."""
        ...


class Dialer(Protocol):
    """The port of a client that blocks its thread: connections, time and random bytes."""

    def dial(self, host: str, port: int, timeout_ms: int) -> Stream:
        """Connects. Raises a retriable KafkaError with the reason if the address is unreachable."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds of steady time, as a Clock."""
        ...

    def pause(self, length_ms: int) -> None:
        """Sleeps."""
        ...

    def random_bytes(self, count: int) -> bytes:
        """`count` unpredictable random bytes, as a Random."""
        ...
