"""The process of a task: stdin and stdout are its worker's, and a stop has an end."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Final, NoReturn

from moldau.connect.running.protocol import Commands, ProtocolError, Reporter, Task

FAILED: Final = 1
"""An exit code."""
STOP_WITHIN_S: Final = 20.0


def run_on_stdin(run: Callable[[Task, Commands, Reporter], int]) -> NoReturn:
    """Gives `run` the task of the first line, and ends the process with its exit code."""
    code = _run(run)
    sys.stderr.flush()
    # without Python's end: the thread that reads stdin holds a lock that the end would wait for
    os._exit(code)


def _run(run: Callable[[Task, Commands, Reporter], int]) -> int:
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a connector prints goes to the log
    with os.fdopen(answers, "w", encoding="utf-8") as stream:
        reporter = Reporter(stream)
        try:
            task = Task.from_line(sys.stdin.readline())
        except ProtocolError as error:
            reporter.report_failure(str(error))
            return FAILED
        commands = Commands(sys.stdin)
        threading.Thread(target=_end_late, args=(commands,), daemon=True).start()
        return run(task, commands, reporter)


def _end_late(commands: Commands) -> None:
    """Ends a task that does not stop, such as in a read that waits without end. Its worker may be gone, so nobody else
    does."""
    commands.is_stopping.wait()
    time.sleep(STOP_WITHIN_S)
    sys.stderr.write(f"the task did not stop within {STOP_WITHIN_S} s\n")
    os._exit(FAILED)
