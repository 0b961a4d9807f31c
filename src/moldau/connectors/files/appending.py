"""Appends a batch to one file, once, although a commit is repeated and a process may die in the middle of it.

A journal next to the file (`.FILE.moldau`) has the last batch of each query, and where the file ended before an append
that has not been finished. The next commit, of any task, cuts the file there first. A lock on the journal's own
lock file lets one task publish at a time, on one machine.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from moldau.connectors.files.lines import FileError, TargetError

MAX_QUERIES: Final = 1_000
"""Queries whose last batch the journal of a file keeps; the one that has been idle for longest leaves."""
LOCK_S: Final = 10.0
"""The time that a task waits for another one that appends to the file; a frozen process may hold the lock."""
_LOCK_POLL_S: Final = 0.02
_COPY_BYTES: Final = 1 << 20


def publish(target: Path, staged: Path, query: str, batch: int, header: bytes) -> None:
    """Appends the staged file. `header`: written first if the file is empty. Raises FileError."""
    try:
        with _locked(target):
            journal = _Journal(target)
            if not journal.has(query, batch):
                journal.cut_unfinished()
                journal.begin()
                _append(target, staged, header)
                journal.finish(query, batch)
        staged.unlink(missing_ok=True)
    except OSError as error:
        raise TargetError(f"{target} cannot be written: {error.strerror}") from error


def _append(target: Path, staged: Path, header: bytes) -> None:
    with staged.open("rb") as source, target.open("ab") as sink:
        if header and sink.tell() == 0:
            sink.write(header)
        shutil.copyfileobj(source, sink, _COPY_BYTES)
        sink.flush()
        os.fsync(sink.fileno())


class _Journal:
    def __init__(self, target: Path) -> None:
        self._target = target
        self._path = target.with_name(f".{target.name}.moldau")
        self._queries: dict[str, int] = {}
        self._open: dict[str, int] | None = None
        try:
            found: Any = json.loads(self._path.read_bytes())
            self._queries, self._open = dict(found["queries"]), found["open"]
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError):
            raise FileError(f"{self._path} cannot be read: move it away if the file may get a batch twice") from None

    def has(self, query: str, batch: int) -> bool:
        return self._queries.get(query, -1) >= batch

    def cut_unfinished(self) -> None:
        """Removes the half-written end of the file, unless it is another file now."""
        if self._open is None or not self._target.exists():
            return
        about = self._target.stat()
        if about.st_ino == self._open["inode"] and about.st_size > self._open["size"]:
            with self._target.open("r+b") as file:
                file.truncate(self._open["size"])
                os.fsync(file.fileno())

    def begin(self) -> None:
        with self._target.open("ab") as file:
            self._open = {"inode": os.fstat(file.fileno()).st_ino, "size": file.tell()}
        self._write()

    def finish(self, query: str, batch: int) -> None:
        self._queries.pop(query, None)
        self._queries[query] = batch
        while len(self._queries) > MAX_QUERIES:
            del self._queries[next(iter(self._queries))]
        self._open = None
        self._write()

    def _write(self) -> None:
        new = self._path.with_name(f"{self._path.name}.new")
        with new.open("w", encoding="utf-8") as file:
            json.dump({"queries": self._queries, "open": self._open}, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        sync_folder(self._path.parent)


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    with target.with_name(f".{target.name}.lock").open("ab") as lock:
        deadline_s = time.monotonic() + LOCK_S
        while not _is_locked(lock):
            if time.monotonic() > deadline_s:
                raise TargetError(f"{target} is locked: another process has been appending for {LOCK_S:g} s")
            time.sleep(_LOCK_POLL_S)
        yield


def _is_locked(lock: BinaryIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Makes new names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
