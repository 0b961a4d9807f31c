"""The process of a light task: see `moldau.connect.running`."""

from __future__ import annotations

from functools import partial

from moldau.connect.running.loop import run
from moldau.connect.running.opening import light_job
from moldau.connect.running.process import run_on_stdin

if __name__ == "__main__":
    run_on_stdin(partial(run, open_job=light_job))
