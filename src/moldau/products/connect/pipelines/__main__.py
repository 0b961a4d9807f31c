"""The process of the task: see `moldau.products.connect.pipelines`."""

from __future__ import annotations

import os
import sys

from moldau.connect.running.process import run_on_stdin
from moldau.products.connect.pipelines.task import run

if __name__ == "__main__":
    code = run_on_stdin(run)
    sys.stderr.flush()
    # without Python's end: the thread that reads stdin holds a lock that the end would wait for
    os._exit(code)
