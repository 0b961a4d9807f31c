"""The programs that a worker starts. One that runs tasks speaks the lines of `moldau.connect.running`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moldau.connect.contract.bounds import DEFAULT_MEMORY_MB, MEMORY
from moldau.connect.contract.runners import LIGHT, RUNNER, SPARK
from moldau.products.connect.core.configs import Config

PIPELINE = "pipeline"
"""A class, and its only runner."""
DEFAULT_MEMORY_ON_SPARK_MB = 4096
"""With the JVM and Spark's Python processes."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Commands. `tasks`: by the runner of a connector. `plugins`: answers one question about plugins."""

    tasks: Mapping[str, Sequence[str]]
    plugins: Sequence[str]

    def of_task(self, config: Config) -> Sequence[str]:
        return self.tasks[runner_of(config)]


PROGRAMS = Programs(
    tasks={
        LIGHT: (sys.executable, "-m", "moldau.connect.running"),
        SPARK: (sys.executable, "-m", "moldau.products.connect.on_spark"),
        PIPELINE: (sys.executable, "-m", "moldau.products.connect.pipelines"),
    },
    plugins=(sys.executable, "-m", "moldau.products.connect.pipelines.questions"),
)


def runner_of(config: Config) -> str:
    """A key of `Programs.tasks`. The light task fails for an unknown runner, and names it."""
    if config.get("connector.class") == PIPELINE:
        return PIPELINE
    return SPARK if config.get(RUNNER) == SPARK else LIGHT


def has_jvm(config: Config) -> bool:
    """Whether a task of this connector has a Spark session."""
    return runner_of(config) != LIGHT


def memory_mb(config: Config) -> int:
    """The bound of a task's memory."""
    text = config.get(MEMORY, "")
    default = DEFAULT_MEMORY_ON_SPARK_MB if has_jvm(config) else DEFAULT_MEMORY_MB
    return int(text) if text.isdigit() else default
