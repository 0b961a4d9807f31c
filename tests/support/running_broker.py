"""`moldau up` as a process, for tests that stop it, kill it and start it again."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

READY = "ready "
PATIENCE_S = 60.0


class RunningBroker:
    """One `moldau up`, or another `command` that serves. `output` has its lines so far; `address` is that of its
    `ready` line. `prefix`: the words that run it elsewhere, for example in a namespace."""

    def __init__(
        self, *arguments: str, cwd: Path | None = None, command: str = "up", prefix: Sequence[str] = ()
    ) -> None:
        words = [*prefix, sys.executable, "-m", "moldau.cli.main", command, *arguments]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1, cwd=cwd
        )
        self.output: list[str] = []
        self.address = ""
        self._has_ended = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.output.append(line)
                if line.startswith(READY):
                    self.address = line.removeprefix(READY).strip()
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def wait_until_ready(self, seconds: float = PATIENCE_S) -> RunningBroker:
        """Kills it if it does not serve within this time: the caller has no process yet to end."""
        try:
            assert self._wait(lambda: self.address != "", seconds), f"it ended without serving: {''.join(self.output)}"
        except BaseException:
            self.kill()
            raise
        return self

    def wait_until_told(self, text: str) -> None:
        """Waits until a line contains `text`."""
        assert self._wait(lambda: any(text in line for line in self.output), PATIENCE_S), "".join(self.output)

    def wait_until_ended(self) -> int:
        """Waits until it ends by itself; gives its exit code."""
        self._finish()
        return self.process.returncode

    def _wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether it came before the end of the process."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._has_ended or condition(), seconds), self.output
            return condition()

    def kill(self) -> None:
        self.process.kill()
        self._finish()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Asks it to stop; gives its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        self._finish()
        return self.process.returncode

    def _finish(self) -> None:
        self.process.wait(timeout=60)
        self._reader.join(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()
