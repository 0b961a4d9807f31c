"""A stream or table as a target: writes rows to its topic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.statement import quoted
from moldau.products.pipelines.formats.registry import Registry
from moldau.products.pipelines.targets.changes import DELETED
from moldau.products.pipelines.targets.target import TargetQuery, refuse_double_columns
from moldau.products.pipelines.targets.topic import TopicTarget
from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.records.encoding import encode, needs_key
from moldau.products.sql.records.layout import key_columns, nearest_name

if TYPE_CHECKING:
    from moldau.spark import DataFrame

ROWS_WITHOUT_KEY = "rows_without_key"
"""An observed metric of a query, and its only column."""


class RelationTarget(TopicTarget, frozen=True, kw_only=True):
    """Writes the columns of `relation`. A column that a result lacks is null; `_rowtime` becomes the record's
    timestamp; a row with DELETED becomes a record without a value. `is_changes`: the rows are changes of a table, of
    which each batch writes one record for each key.

    A table's row whose key is null is left out, because Kafka's compaction needs keys. The query's metric
    ROWS_WITHOUT_KEY counts such rows in each batch."""

    relation: Relation
    registry: Registry | None = None
    is_changes: bool = False
    key: str | None = None

    @classmethod
    def parse(cls, sink: Section, directory: Path) -> RelationTarget:
        sink.refuse(None, "a relation is declared in SQL")

    def rows_of(self, result: DataFrame) -> DataFrame:
        refuse_double_columns(result.columns)
        if needs_key(self.relation):
            result = self._counted(result)
        records = self._records(result)  # refuses columns before the query starts
        return result if self.is_changes else records

    def writer(self, query: TargetQuery) -> Callable[[DataFrame, int], None]:
        write = super().writer(query)
        if not self.is_changes:
            return write

        def write_changes(batch: DataFrame, batch_id: int) -> None:
            from moldau.spark.tables.newest import upserts  # a statement is checked without Spark

            names = (nearest_name(batch.columns, column.name.text) for column in key_columns(self.relation))
            changes = (
                upserts(batch, [name for name in names if name is not None]) if DELETED in batch.columns else batch
            )
            write(self._records(changes), batch_id)

        return write_changes

    def _counted(self, result: DataFrame) -> DataFrame:
        """With the metric ROWS_WITHOUT_KEY."""
        from moldau.spark import expression  # a statement is checked without Spark

        found = (nearest_name(result.columns, column.name.text) for column in key_columns(self.relation))
        nulls = " and ".join(f"{quoted(name)} is null" for name in found if name is not None)
        return result.observe(ROWS_WITHOUT_KEY, expression(f"count_if({nulls or 'true'}) as {ROWS_WITHOUT_KEY}"))

    def _records(self, rows: DataFrame) -> DataFrame:
        records = encode(rows, self.relation, self.registry).in_tasks()
        return records.where("key is not null") if needs_key(self.relation) else records


def target_of(
    relation: Relation,
    access: ClusterAccess | None,
    *,
    registry: Registry | None,
    mode: str = "append",
    is_changes: bool = False,
) -> RelationTarget:
    """`access`: to its cluster; None: to the query's."""
    return RelationTarget(
        mode=mode,
        topic=relation.topic,
        access=access,
        relation=relation,
        registry=registry,
        is_changes=is_changes,
    )
