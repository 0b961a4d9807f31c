"""Five tasks, each written three times: `TASK.yaml` for `moldau pipeline`, `TASK_spark.py` in plain PySpark with
Spark's own connector, `TASK_quix.py` with Quix Streams. `benchmarks.side_by_side` runs them."""
