"""Rows of a SELECT from a list, without an engine."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.errors import MoldauError
from moldau.products.sql.engine.answers import ChangedRow


class ListedRows:
    """A RowStream: each read gives the next batch. `error`: after the last batch the query fails. `is_endless`: after
    it, reads give no rows."""

    def __init__(
        self,
        columns: Sequence[tuple[str, str]],
        batches: Sequence[Sequence[ChangedRow]],
        *,
        key: tuple[str, ...] = (),
        error: str | None = None,
        is_endless: bool = False,
    ) -> None:
        self.columns, self.key, self.query_id = tuple(columns), key, "TRANSIENT_1"
        self._batches, self._error, self._is_endless = list(batches), error, is_endless
        self.is_closed = False
        self.empty_reads = 0

    def read(self, most: int, timeout_s: float) -> Sequence[ChangedRow]:
        if self._batches:
            return self._batches.pop(0)
        if self._error is not None:
            raise MoldauError(self._error)
        self.empty_reads += 1
        return ()

    @property
    def is_over(self) -> bool:
        return not self._batches and self._error is None and not self._is_endless

    def close(self) -> None:
        self.is_closed = True
