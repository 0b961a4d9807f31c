"""A program that runs next to a test, prints its progress, and is killed."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, AnyStr


def line_of(stream: IO[AnyStr] | None, seconds: float = 60) -> AnyStr:
    """The next line that a program writes into this pipe. Raises queue.Empty if none comes in this time."""
    assert stream is not None
    lines: queue.Queue[AnyStr] = queue.Queue()
    threading.Thread(target=lambda: lines.put(stream.readline()), daemon=True).start()
    return lines.get(timeout=seconds)


@contextmanager
def running(
    command: list[str], *, stdin: int | None = None, stdout: int | None = None, stderr: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A program with its pipes, ended with the block: `with Popen(...)` would wait for it even if the test fails."""
    process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(60)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


class TalkingProcess:
    """A program, and its lines. `environment`: additions to this process's."""

    def __init__(self, command: list[str], environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.pid = self._process.pid
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.output: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output.append(line)
            self._lines.put(line.strip())
        self._lines.put(None)

    def next_line(self, end_s: float) -> str | None:
        """None after the last one, each time. Raises queue.Empty if none has come until then."""
        line = self._lines.get(timeout=max(0.0, end_s - time.monotonic()))
        if line is None:
            self._lines.put(None)
        return line

    def wait_for(self, is_it: Callable[[str], bool], end_s: float) -> bool:
        """Whether such a line came before the process ended."""
        while True:
            line = self.next_line(end_s)
            if line is None or is_it(line):
                return line is not None

    def live_on(self, seconds: float) -> int | None:
        """The exit code of a program that ends in this time."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def terminate(self) -> None:
        """SIGTERM."""
        self._process.terminate()

    def kill(self) -> int:
        """Its exit code; that of a process that had already ended stays."""
        self._process.kill()
        code = self._process.wait(60)
        self._reader.join(60)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code
