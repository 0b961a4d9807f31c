"""The process of a task: see `moldau.connect.running`."""

from __future__ import annotations

import os
import sys

from moldau.connect.running.loop import FAILED, run
from moldau.connect.running.protocol import Commands, ProtocolError, Reporter, Task


def main() -> int:
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a connector prints goes to the log
    with os.fdopen(answers, "w", encoding="utf-8") as stream:
        reporter = Reporter(stream)
        try:
            task = Task.from_line(sys.stdin.readline())
        except ProtocolError as error:
            reporter.report_failure(str(error))
            return FAILED
        return run(task, Commands(sys.stdin), reporter)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # without Python's end: the thread that reads stdin holds a lock that the end would wait for
    os._exit(code)
