"""The process of the task: see `moldau.products.connect.pipelines`."""

from __future__ import annotations

from moldau.connect.running.process import run_on_stdin
from moldau.products.connect.pipelines.task import run

if __name__ == "__main__":
    run_on_stdin(run)
