"""One task of a connector: a process that speaks the lines of `moldau.connect.running`.

The process reads the task and commands on standard input, and writes states and progress on standard output. It ends
when its standard input ends, which also happens if the worker is killed. What it writes on standard error goes to the
standard error of the worker, and the end of it is the trace of a process that ends without a word.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import msgspec

from moldau.products.connect.running.memory import memory_bytes

MOST_LINE_BYTES = 1 << 20
"""Of a line of a task; the rest of a longer one is dropped."""
KEPT_ERROR_LINES = 40
"""Of standard error, for the trace."""
END_S = 10.0

Line = dict[str, Any]


class Ended(msgspec.Struct, frozen=True):
    """The process has ended. `said`: its last lines on standard error."""

    code: int
    said: str


class TaskProcess:
    """From the constructor's return until `Ended` is told. Used from one thread; `tell` is called in others."""

    def __init__(
        self,
        command: Sequence[str],
        name: str,
        first: Mapping[str, Any],
        nice: int,
        tell: Callable[[TaskProcess, Line | Ended], None],
    ) -> None:
        """`name`: the last word of the command, so that `ps` shows it. `first`: the line of the task. `tell`: gets
        this process with each line, and at last Ended. Raises OSError."""
        self._name = name
        self._tell = tell
        self._process = subprocess.Popen(
            [*command, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C is for the worker, which then stops its tasks
        )
        os.setpriority(os.PRIO_PROCESS, self._process.pid, nice)
        self._said: deque[bytes] = deque(maxlen=KEPT_ERROR_LINES)
        self._errors = threading.Thread(target=self._read_errors, name=f"errors of {name}", daemon=True)
        self._errors.start()
        threading.Thread(target=self._read_lines, name=f"lines of {name}", daemon=True).start()
        self.send(first)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, line: Mapping[str, Any]) -> None:
        """A process that has ended gets nothing: `tell` says that it has."""
        stream = _there(self._process.stdin)
        try:
            stream.write(msgspec.json.encode(line) + b"\n")
            stream.flush()
        except (OSError, ValueError):
            return

    def stop(self) -> None:
        """Asks the process to end."""
        self.send({"do": "stop"})
        try:
            _there(self._process.stdin).close()
        except OSError:
            return

    def kill(self) -> None:
        """Ends the process and what it has started."""
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return

    def has_ended(self, wait_s: float = 0.0) -> bool:
        try:
            self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def memory_bytes(self) -> int | None:
        """With the processes that it has started. None where the system does not tell it."""
        return memory_bytes(self.pid)

    # -- in threads

    def _read_lines(self) -> None:
        stream = _there(self._process.stdout)
        is_rest = False
        while text := stream.readline(MOST_LINE_BYTES):
            is_whole = text.endswith(b"\n")
            if is_whole and not is_rest:
                self._read_line(text)
            is_rest = not is_whole
        code = self._process.wait()
        self._errors.join(END_S)
        self._tell(self, Ended(code, b"".join(self._said).decode(errors="replace")))

    def _read_line(self, text: bytes) -> None:
        try:
            self._tell(self, msgspec.json.decode(text, type=dict[str, Any]))
        except msgspec.DecodeError:
            self._said.append(text)

    def _read_errors(self) -> None:
        for text in iter(lambda: _there(self._process.stderr).readline(MOST_LINE_BYTES), b""):
            self._said.append(text)
            print(f"[{self._name}] {text.decode(errors='replace').rstrip()}", file=sys.stderr, flush=True)


def _there(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise TypeError("the process has no such stream")
    return stream
