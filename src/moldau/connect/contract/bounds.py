"""Bounds of a connector that people meet."""

from __future__ import annotations

from typing import Final

MAX_TASKS: Final = 1_000
"""Tasks of a connector (`tasks.max`)."""
MAX_DDL_DEPTH: Final = 64
"""Nested types of a schema in DDL."""
MAX_ABORTED: Final = 8
"""Aborted transactions of one batch of a source until its task fails."""
MEMORY: Final = "task.memory.max.mb"
"""The setting of a task's bound of memory."""
DEFAULT_MEMORY_MB: Final = 1024
"""Of a light task."""
