"""The programs that may run the tasks of a connector."""

from __future__ import annotations

import difflib
from typing import Final

from moldau.connect.configuration import wrong

RUNNER: Final = "runner"
LIGHT, SPARK = "light", "spark"
RUNNERS: Final = (LIGHT, SPARK)
SPARK_PREFIX: Final = "spark."
"""Of settings of the Spark session."""


def check_runner(name: str, value: object) -> None:
    """Raises ValueError."""
    if value not in RUNNERS:
        near = difflib.get_close_matches(str(value), RUNNERS, 1)
        hint = f", did you mean {near[0]}?" if near else ""
        raise ValueError(wrong(name, value, f"String must be one of: {', '.join(RUNNERS)}{hint}"))
