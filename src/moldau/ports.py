"""The ports: what the deciding code may ask of the world. Each has a real form and a simulated one.

Real: `moldau.shell.io`. Simulated: `moldau.shell.io.simulated`. Code below `shell` touches the world only here.
All paths given to `Disk` are relative, with "/" between parts, and are resolved under the root of the port; a path that
would leave the root raises ValueError (nothing from the network becomes a path).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from moldau.types import Buffer

T = TypeVar("T")


class Clock(Protocol):
    """Two clocks: wall time for records and retention, a steady one for deadlines."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may be set back by an operator."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds of a clock that never goes back."""
        ...


class Random(Protocol):
    """Where every random choice comes from, so that a seed repeats a run."""

    def random_bytes(self, count: int) -> bytes:
        """`count` random bytes."""
        ...

    def random_below(self, bound: int) -> int:
        """A random integer in [0, bound)."""
        ...


class LaterBytes(Protocol):
    """Bytes of an answer that stay on the disk until its receiver takes them."""

    def __len__(self) -> int: ...

    def next_piece(self, max_bytes: int, then: Callable[[Buffer | None], None]) -> Buffer | None:
        """The next bytes, or None where they must wait for the disk: `then` is called with them later, or with None if
        they cannot be read any more."""
        ...


FLUSH_FAILED_MARK = ".moldau_flush_failed"
"""A file in the root of a log directory: a flush failed, so that the page cache holds pages that the system counts as
clean and the disk does not have (docs/decisions/0023)."""


class File(Protocol):
    """One open file. Errors: StorageFullError (nothing of the write remains), StorageFailedError."""

    path: str

    def size(self) -> int:
        """The length in bytes, with what was appended a moment ago."""
        ...

    def append(self, data: Buffer) -> int:
        """Writes all of `data` at the end, into the page cache, and gives the position where it begins."""
        ...

    def write_at(self, position: int, data: Buffer) -> None:
        """Writes inside or at the end of the file (indexes, checkpoints)."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; may wait for the disk. For start-up and Workers; not for the event loop."""
        ...

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        """What `read` gives if the page cache holds all of it, else None. Never waits.

        A bytearray where the system fills a buffer of ours: one copy less for each fetch.
        """
        ...

    def truncate(self, size: int) -> None:
        """Cuts the file to `size` bytes; a shorter file is filled up with zeros."""
        ...

    def flush(self) -> None:
        """fsync. Waits: call it through Workers, or at start and stop. Raises StorageFailedError; never try again.

        Before it raises, it makes FLUSH_FAILED_MARK in the root of the disk, which holds the path of this file.
        """
        ...

    def close(self) -> None:
        """Ends the use of the file; work that Workers do with it still ends. Does not flush."""
        ...


class Disk(Protocol):
    """A log directory. Synchronous calls reach only the page cache, except where said."""

    def open(self, path: str, *, create: bool = True) -> File:
        """Opens for reading and writing; FileNotFoundError if absent and `create` is False."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or a directory."""
        ...

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory; False for a file."""
        ...

    def list_directory(self, path: str) -> list[str]:
        """Names inside, sorted; an absent directory is empty."""
        ...

    def make_directory(self, path: str) -> None:
        """Makes the directory and its parents; silent if it is there."""
        ...

    def remove(self, path: str) -> None:
        """Removes a file; silent if absent."""
        ...

    def remove_tree(self, path: str) -> None:
        """Removes a directory with all that is in it; silent if absent."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Gives the file or directory another name. Atomic; durable only after `flush_directory` of the parents."""
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
        """Holds the file `path` against other processes and nodes until the result is called, or the process ends.

        Calling the result may remove the file.

        Raises BlockingIOError if another process holds it.
        """
        ...


class Workers(Protocol):
    """Threads for work that releases the GIL: fsync, compression, cold reads. Bounded; simulated: in virtual time."""

    async def run(self, work: Callable[[], T]) -> T:
        """Runs `work` off the loop and gives its result or raises its error. Work that was begun is done even if its
        caller is cancelled."""
        ...

    async def drain(self) -> None:
        """Returns when no work is under way any more, also none whose caller was cancelled."""
        ...

    def close(self) -> None:
        """Waits for work that runs, and drops work that has not begun."""
        ...


class Stream(Protocol):
    """One connection that a client dialled. Every call waits at most `timeout_ms`, then raises TimeoutError; what the
    system reports of a lost connection is another OSError."""

    def send(self, data: Buffer, timeout_ms: int) -> None:
        """Writes all of `data`."""
        ...

    def receive(self, max_bytes: int, timeout_ms: int) -> bytes:
        """What has come, at least one byte; b"" where the other side has closed the connection."""
        ...

    def receive_into(self, target: memoryview, timeout_ms: int) -> int:
        """As `receive`, into memory of the caller's; gives the number of bytes."""
        ...

    def has_ended(self) -> bool:
        """Whether the end of the connection has come, or bytes that nobody asked for. Does not wait."""
        ...

    def close(self) -> None:
        """Ends the connection. What was not received is dropped."""
        ...


class Dialer(Protocol):
    """What a client that blocks its thread asks of the world: connections, the time, and random bytes."""

    def dial(self, host: str, port: int, timeout_ms: int) -> Stream:
        """Connects. Raises a retriable KafkaError that says why the address cannot be reached."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds of a clock that never goes back, as of a Clock."""
        ...

    def pause(self, length_ms: int) -> None:
        """Returns after so much time."""
        ...

    def random_bytes(self, count: int) -> bytes:
        """`count` random bytes that nobody can predict, as of a Random."""
        ...
