"""A Spark Connect server on this machine, from the installed pyspark, with two tasks at once."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from tests.exactly_once.spark_cluster import start_spark, wait_for_words

CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
STARTED = "Spark Connect server started at"
ADDRESS = re.compile(rf"{STARTED}: .*:(\d+)")
SETTINGS = {
    "spark.master": "local[2]",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


class ConnectServer:
    """`url` is the value for `spark.remote`. `environment`: additions to this process's environment for the server and
    its Python. Stop it."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        words = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
        own = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "1g"}
        # Spark gives each Python process 10 s to start: a faster server starts more of them at once
        own["SPARK_SUBMIT_OPTS"] = ""
        submit = ("org.apache.spark.deploy.SparkSubmit", "--class", CLASS, *words, "spark-internal")
        self._process = start_spark({**own, **(environment or {})}, *submit)
        try:
            wait_for_words(self._process, STARTED)
            (port,) = {found[1] for found in map(ADDRESS.search, self._process.output) if found is not None}
        except BaseException:
            self.stop()
            raise
        self.url = f"sc://127.0.0.1:{port}"

    def stop(self) -> None:
        self._process.kill()
