"""A lock on a file that the session's JVM holds, so that it lasts until the JVM ends too."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class JvmLock:
    """A POSIX lock of the JVM's process (fcntl), from the constructor to `release` or the end of the JVM. Only for a
    session of this process, not of a Spark Connect server."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        """Creates the file, and writes the JVM's process id into it. Raises BlockingIOError if another process, or this
        JVM, has the lock."""
        jvm: Any = spark._jvm
        self._file = jvm.java.io.RandomAccessFile(str(path.absolute()), "rw")
        try:
            lock = self._file.getChannel().tryLock()
        except Py4JJavaError as error:  # OverlappingFileLockException
            self._file.close()
            raise BlockingIOError(str(error.java_exception)) from error
        if lock is None:
            self._file.close()
            raise BlockingIOError(f"{path} is locked")
        self._file.setLength(0)
        self._file.writeBytes(f"{jvm.java.lang.ProcessHandle.current().pid()}\n")

    def release(self) -> None:
        with suppress(Py4JError, OSError):  # a JVM that has ended holds no lock
            self._file.close()
