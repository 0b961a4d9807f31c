"""The base of targets that are tables: each remembers the newest batch of each checkpoint.

A table stores a batch and its number in one commit. So if Spark runs a batch again after a crash, the batch is found in
the table, and is evaluated but not written again.

With `sequence_by` the rows are changes of the table's rows: see `changes`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.keys import Key, Number
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.targets.changes import CHANGE_KEYS, KEY, SEQUENCE_BY, Changes, check_key, parse_changes
from moldau.products.pipelines.targets.target import (
    MODE,
    Target,
    TargetError,
    TargetQuery,
    refuse_double_columns,
    refuse_types,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark import DataFrame

logger = logging.getLogger("moldau.pipelines")

COMPACT_EVERY = Number(
    "compact_every", "After how many batches small files are joined.", number=100, least=1, most=1_000_000
)


class TableTarget(Target, frozen=True, kw_only=True):
    """`key`: in update mode, the columns by which a row replaces an older one. `changes`: the meaning of rows that are
    changes; None: each row is newer than earlier ones."""

    LACKS: ClassVar[tuple[str, ...]] = ()
    """Spark types that the table lacks, for `refuse_types`."""
    KEYS: ClassVar[tuple[Key, ...]] = (*Target.KEYS, KEY, *CHANGE_KEYS)

    key: tuple[str, ...] = ()
    changes: Changes | None = None

    @staticmethod
    def parse_rows(sink: Section, mode: str) -> tuple[tuple[str, ...], Changes | None]:
        """`key` and `changes`. Raises SpecError."""
        key, changes = KEY.of(sink), parse_changes(sink)
        if mode == "update" and not key:
            sink.refuse(MODE, "update needs `key`: the columns by which a row takes the place of an older one")
        for word in (KEY, SEQUENCE_BY):
            if mode == "append" and sink.has(word):
                sink.refuse(word, "is for the mode update; with append every row is another one")
        return (key, None) if changes is None else (changes.key_in_table, changes)

    def facts(self) -> Facts:
        return {} if self.changes is None else self.changes.facts()

    def key_columns(self) -> tuple[str, ...]:
        return self.key if self.changes is None else ()

    def newest(self, result: DataFrame) -> DataFrame:
        """Raises FlowError."""
        if self.changes is None:
            return result
        return self.changes.rows(result)

    def rows_of(self, result: DataFrame) -> DataFrame:
        refuse_double_columns(result.columns)
        check_key(result.columns, self.key)
        refuse_types(result, self.LACKS, self.NAMED_BY)
        return result


def refuse_nested_key(result: DataFrame, key: Sequence[str]) -> None:
    """For tables whose rows Arrow compares, because it can only compare plain values. Raises FlowError."""
    for name, kind in result.dtypes:
        if name in key and kind.startswith(("struct", "array", "map")):
            raise FlowError(
                f"the column {name!r}, which `key` names, has the type {kind}: rows are told apart by plain values, "
                "such as `to_json` of it"
            )


def commit_again(
    commit: Callable[[], None], refused: type[Exception], attempts: int, table: str, batch_id: int
) -> None:
    """Calls `commit`, up to `attempts` times while another writer commits first (`refused`). Raises TargetError."""
    for attempt in range(1, attempts + 1):
        try:
            commit()
            return
        except refused as error:
            if attempt == attempts:
                raise TargetError(f"another writer changes {table} all the while: {error}") from error
            logger.warning("batch %d is committed to %s again: %s", batch_id, table, error)


def is_committed(newest: int | None, batch_id: int) -> bool:
    """`newest`: the newest batch of this checkpoint in the table; None without one."""
    return newest is not None and newest >= batch_id


def evaluate(batch: DataFrame) -> None:
    """Runs a batch that the table already has, without writing it: the query still has to count its records that do not
    parse, and upstream operators must keep the state of this batch."""
    batch.write.format("noop").mode("overwrite").save()


def check_not_ahead(newest: int | None, query: TargetQuery, table: str) -> None:
    """Raises TargetError if the table has a batch that the checkpoint never began. The checkpoint was then restored to
    an older state, and its next batches would have other records under used numbers."""
    from moldau.products.pipelines.checkpoints.checkpoint import newest_planned_batch  # not needed to check a file

    planned = newest_planned_batch(query.checkpoint)
    if newest is not None and newest > planned:
        raise TargetError(
            f"{table} holds batch {newest} of the checkpoint {query.checkpoint}, which has only come to batch "
            f"{planned}: it was put back to an older state. Name another directory with `checkpoint`"
        )


def check_keys(rows: pa.Table, key: Sequence[str]) -> None:
    """`rows`: the columns `key` of a batch. Raises TargetError if an upsert could not tell two rows apart."""
    import pyarrow.compute as pc  # a pipeline file is checked without this import

    for name in key:
        if rows.column(name).null_count:
            raise no_key(name)
    groups = rows.group_by(list(key)).aggregate([([], "count_all")])
    if groups.num_rows < rows.num_rows:
        first = groups.filter(pc.greater(groups.column("count_all"), 1)).select(list(key)).to_pylist()[0]
        raise several_rows_of_a_key(key, tuple(first.values()))


def no_key(name: str) -> TargetError:
    return TargetError(f"a row has no {name!r}, which `key` names: leave such rows out (`where`)")


def several_rows_of_a_key(key: Sequence[str], values: tuple[object, ...]) -> TargetError:
    return TargetError(
        f"a batch has several rows of one key ({', '.join(key)}), such as {values}: which one is the last? "
        "Make one row of each key with `group by`, or say with `sequence_by` what orders them"
    )
