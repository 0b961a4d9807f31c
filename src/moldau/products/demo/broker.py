"""The demo's own broker: `moldau up` as a child process."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from moldau.errors import MoldauError

READY_SECONDS = 30.0
STOP_SECONDS = 15.0


class BrokerError(MoldauError):
    """The broker did not start; the message holds its output."""


class ChildBroker:
    """A broker on a free port of 127.0.0.1 with its data in `data_directory`, as a context manager."""

    address: str

    def __init__(self, data_directory: Path, log_path: Path) -> None:
        self._data_directory = data_directory
        self._log_path = log_path
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> ChildBroker:
        """Waits for the broker's line `ready HOST:PORT`. Raises BrokerError."""
        command = [sys.executable, "-u", "-m", "moldau.cli.main", "up"]
        command += ["--data-dir", str(self._data_directory), "--listen", "127.0.0.1:0"]
        with self._log_path.open("w") as log:
            # In a new session: Ctrl-C in the terminal goes to the demo, which stops the broker last.
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        self._process = process
        watchdog = threading.Timer(READY_SECONDS, process.kill)
        watchdog.start()
        try:
            lines: list[str] = []
            for line in process.stdout or ():
                lines.append(line)
                if line.startswith("ready "):
                    self.address = line.split()[1]
                    return self
            said = "".join(lines) + self._log_path.read_text("utf-8", "replace")
            raise BrokerError(f"the broker did not start: {said.strip()[-1_000:] or 'it said nothing'}")
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            watchdog.cancel()

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
