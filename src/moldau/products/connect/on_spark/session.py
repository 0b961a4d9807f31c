"""The Spark session of a task."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moldau.client.protocol.access import ClusterAccess
from moldau.connect.configuration import ConfigError
from moldau.connect.contract.runners import SPARK_PREFIX
from moldau.connect.contract.shared_settings import POLL_INTERVAL
from moldau.connect.running.protocol import Task
from moldau.extras import MissingExtraError, require_extra
from moldau.products.connect.running.programs import memory_mb

if TYPE_CHECKING:
    from moldau.spark import SparkSession

REMOTE: Final = "spark.remote"
LEAST_HEAP_MB: Final = 512
"""With less, Spark does not start."""


def require_spark() -> None:
    """Raises MissingExtraError. `pyspark-client`, which light tasks need, has no Spark in it."""
    require_extra("the runner spark", "spark", ("numpy", "pyarrow", "pyspark", "pandas"))
    found = find_spec("pyspark")
    has_jars = found is not None and found.origin is not None and (Path(found.origin).parent / "jars").is_dir()
    if not has_jars and not os.environ.get("SPARK_HOME"):
        raise MissingExtraError(
            "the runner spark needs pyspark with its jars, and pyspark-client is in its place: "
            "pip uninstall pyspark-client, then pip install '.[spark]' from a clone of Moldau",
            name="pyspark",
        )


def open_task_session(task: Task, values: dict[str, Any]) -> SparkSession:
    """`values`: the settings that every connector has. Raises ConfigError, SparkStartError, ExecutorError."""
    from moldau.spark import open_session

    given = {name: text for name, text in task.config.items() if name.startswith(SPARK_PREFIX)}
    settings = {
        # the rest is for the JVM itself and for Python
        "spark.driver.memory": f"{max(memory_mb(task.config) // 2, LEAST_HEAP_MB)}m",
        "spark.sql.streaming.pollingDelay": f"{values[POLL_INTERVAL]}ms",
        # a failed task fails its batch: the next start fences it, and writes the batch again
        "spark.task.maxFailures": "1",
        "spark.stage.maxConsecutiveAttempts": "1",
        **task.spark,
        **given,
    }
    if REMOTE in settings:
        sentence = f"{REMOTE} is not served: a batch is committed in the process of the task, which a server is not"
        raise ConfigError({REMOTE: (sentence,)})
    return open_session(f"connector {task.connector}", settings)


def access_of(task: Task) -> ClusterAccess:
    """The cluster, for the clients of Spark's tasks. Raises AccessError, ConfigError."""
    if task.access is None:
        sentence = "the worker has a secret in memory alone: Spark's tasks need references to secrets in its settings"
        raise ConfigError({"runner": (sentence,)})
    return ClusterAccess.from_properties({"bootstrap.servers": task.bootstrap_servers, **task.access}).named(
        f"connector-{task.connector}"
    )
