"""One driver at a time on a checkpoint.

A lock of the operating system on a file in the checkpoint directory: it goes when its last holder goes, however that
ends. The driver's JVM inherits the open file, for it outlives a killed driver by a moment and may still be writing:
the next driver waits until it is gone too. Holds on one machine's file systems; over NFS only where its locks do.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

from moldau.errors import MoldauError

LEASE_FILE = "driver.lease"
WAIT_FOR_DYING_SECONDS = 30.0
_RETRY_SECONDS = 0.1


class LeaseError(MoldauError):
    """Another driver runs on this checkpoint; the message names its process."""


class Lease:
    """The right to run on a checkpoint directory, from the constructor's return to `release`."""

    def __init__(self, checkpoint: Path) -> None:
        """Makes the directory. Raises LeaseError at once while the holder lives, or after WAIT_FOR_DYING_SECONDS if
        the holder is gone but something that it started is not."""
        checkpoint.mkdir(parents=True, exist_ok=True)
        self._path = checkpoint / LEASE_FILE
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._lock()
        except BaseException:
            os.close(self._file)
            raise
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def fileno(self) -> int:
        """What the JVM inherits."""
        return self._file

    def release(self) -> None:
        """Closes our end; the lock itself goes with the last process that holds it open."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _lock(self) -> None:
        deadline = time.monotonic() + WAIT_FOR_DYING_SECONDS
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip()
                if _is_alive(holder) or time.monotonic() > deadline:
                    raise LeaseError(
                        f"process {holder or '(unknown)'} runs a pipeline on the checkpoint {self._path.parent}"
                    ) from None
                time.sleep(_RETRY_SECONDS)
            else:
                return


def holder_of(checkpoint: Path) -> int | None:
    """The process that runs a pipeline on the checkpoint, None if none does."""
    try:
        file = os.open(checkpoint / LEASE_FILE, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(file, 32, 0).decode("ascii", "replace").strip()
        return int(holder) if _is_alive(holder) else None
    else:
        return None
    finally:
        os.close(file)


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
