"""The process of a task: see `moldau.connect.running`."""

from __future__ import annotations

import os
import sys

from moldau.connect.running.loop import run
from moldau.connect.running.process import run_on_stdin

if __name__ == "__main__":
    code = run_on_stdin(run)
    sys.stderr.flush()
    # without Python's end: the thread that reads stdin holds a lock that the end would wait for
    os._exit(code)
