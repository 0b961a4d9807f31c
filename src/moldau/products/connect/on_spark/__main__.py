"""The process of a task on Spark: see `moldau.products.connect.on_spark`."""

from __future__ import annotations

from functools import partial

from moldau.connect.running.loop import run
from moldau.connect.running.process import run_on_stdin
from moldau.products.connect.on_spark.opening import spark_job

if __name__ == "__main__":
    run_on_stdin(partial(run, open_job=spark_job))
