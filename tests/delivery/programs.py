"""The programs of examples/delivery as processes, and the records that they leave."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.exactly_once.judge import read_committed

FOLDER = Path(__file__).parents[2] / "examples" / "delivery"
STOP_S = 120


def command(program: str, topic: str, address: str, *more: str) -> list[str]:
    return [sys.executable, str(FOLDER / f"{program}.py"), topic, "--bootstrap-server", address, *more]


class Program:
    """One life of a program; `output` gets its lines."""

    def __init__(self, program: str, topic: str, address: str, output: Path, *more: str) -> None:
        self._output = output
        self._seen = output.stat().st_size if output.exists() else 0
        with output.open("ab") as file, output.with_suffix(".errors").open("ab") as errors:
            self._process = subprocess.Popen(
                command(program, topic, address, *more),
                stdout=file,
                stderr=errors,
                cwd=output.parent,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def has_spoken(self) -> bool:
        return self._output.stat().st_size > self._seen

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait(STOP_S)

    def terminate(self) -> None:
        """SIGTERM."""
        self._process.terminate()

    def finish(self) -> int:
        """Waits for its end; gives the exit code."""
        return self._process.wait(STOP_S)


def numbers_in(address: str, topic: str) -> list[int]:
    """The committed numbers in partition 0 of a topic. Raises AssertionError if its end is not reached in time."""
    return [int(message.value() or b"") for message in read_committed(address, topic, 1)]
