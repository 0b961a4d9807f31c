"""Caches the tables that streams are joined with, and reads them again when they are too old.

Spark looks for cached tables each time it plans a micro-batch. A table without `refresh` is not cached, and every
micro-batch reads it again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.products.pipelines.spec.spec import PipelineSpec

if TYPE_CHECKING:
    from moldau.spark import DataFrame


class KeptTables:
    """The cached tables of one run. Call `refresh` repeatedly, and `close` at the end."""

    def __init__(self, spec: PipelineSpec, views: Mapping[str, DataFrame]) -> None:
        """`views`: by source name. Nothing is read before the first micro-batch that joins a table."""
        sources = spec.sources().items()
        self._kept = [_KeptTable(views[name], source.refresh_ms) for name, source in sources if source.refresh_ms]

    def refresh(self) -> None:
        """Drops each table that is older than its `refresh`: the next micro-batch reads it again."""
        for table in self._kept:
            table.refresh()

    def close(self) -> None:
        for table in self._kept:
            table.close()


class _KeptTable:
    def __init__(self, rows: DataFrame, refresh_ms: int) -> None:
        self._rows = rows
        self._refresh_s = refresh_ms / 1_000
        self._kept_at = time.monotonic()
        rows.persist()

    def refresh(self) -> None:
        if time.monotonic() - self._kept_at >= self._refresh_s:
            self._rows.unpersist()
            self._rows.persist()
            self._kept_at = time.monotonic()

    def close(self) -> None:
        self._rows.unpersist()
