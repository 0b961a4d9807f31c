"""A target that is a table: its rows have columns, and it remembers which batch of which checkpoint it holds.

A table takes a batch and the batch's number in one commit of its own. So a batch that Spark runs again after a crash
is found there, and is evaluated without being written again.

With `sequence_by` the rows are changes of the table's rows, such as a database's log has them, in any order: of each
key Spark's state keeps the newest change, so that an older one that comes later changes nothing. Where
`apply_as_deletes` says so, a change removes the row of its key. (As `create_auto_cdc_flow` of Spark Declarative
Pipelines, SCD type 1.)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.statement import literal, quoted
from moldau.products.pipelines.targets.target import Target, TargetError, TargetQuery, refuse_double_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark import DataFrame


logger = logging.getLogger("moldau.pipelines")


COMPACT_EVERY = 100
MOST_BATCHES = 1_000_000
DELETED = "_moldau_deleted"
"""The column of a change that says whether it removes its row; not there without `apply_as_deletes`."""


class Changes(msgspec.Struct, frozen=True):
    """SQL over the columns of a row: `sequence_by` orders the changes of a key, `deletes` says which remove the row;
    None: none does. `kept`: the columns that the table gets; (): all but those `left_out`."""

    sequence_by: str
    deletes: str | None = None
    kept: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def not_in_table(self, names: Sequence[str]) -> list[str]:
        """Which columns of the SQL's result, `names`, the table does not get. Raises FlowError."""
        known = [name.lower() for name in names]
        for key, listed in (("column_list", self.kept), ("except_column_list", self.left_out)):
            missing = [name for name in listed if name.lower() not in known]
            if missing:
                raise FlowError(f"`{key}` names {missing[0]!r}, but the SQL gives {', '.join(names)}")
        kept, left_out = {name.lower() for name in self.kept}, {name.lower() for name in self.left_out}
        return [name for name in names if name.lower() in left_out or (kept and name.lower() not in kept)]


class TableTarget(Target, frozen=True, kw_only=True):
    """`key`: in the mode update, the columns by which a row takes the place of an older one. `changes`: how the newest
    row of a key is found; None: each row is newer than those before it."""

    LACKS: ClassVar[tuple[str, ...]] = ()
    """Types of Spark that the table has no columns for."""
    KEYS: ClassVar[tuple[str, ...]] = (
        *Target.KEYS, "key", "sequence_by", "apply_as_deletes", "column_list", "except_column_list"
    )  # fmt: skip

    key: tuple[str, ...] = ()
    changes: Changes | None = None

    @staticmethod
    def parse_key(sink: Section, mode: str) -> tuple[str, ...]:
        key = sink.names("key")
        if mode == "update" and not key:
            sink.refuse("mode", "update needs `key`: the columns by which a row takes the place of an older one")
        if mode == "append" and key:
            sink.refuse("key", "is for the mode update; with append every row is another one")
        return key

    @staticmethod
    def parse_changes(sink: Section, mode: str) -> Changes | None:
        if not sink.has("sequence_by"):
            for key in ("apply_as_deletes", "column_list", "except_column_list"):
                if sink.has(key):
                    sink.refuse(key, "needs `sequence_by`: SQL that orders the changes of a key")
            return None
        if mode != "update":
            sink.refuse("sequence_by", "is for the mode update; with append every row is another one")
        deletes, columns_of_key = sink.text("apply_as_deletes", default="") or None, set(sink.names("key"))
        kept, left_out = sink.names("column_list"), sink.names("except_column_list")
        if kept and left_out:
            sink.refuse("column_list", "and `except_column_list` say the same in two ways: write one of them")
        if kept and not columns_of_key <= set(kept):
            sink.refuse("column_list", "must have the columns of the `key` too")
        if columns_of_key & set(left_out):
            sink.refuse("except_column_list", "must not leave out the `key`")
        return Changes(sink.text("sequence_by"), deletes, kept, left_out)

    def facts(self) -> Facts:
        if self.changes is None:
            return {}
        changes = self.changes
        return {
            "key": ", ".join(self.key),
            "sequence_by": changes.sequence_by,
            "apply_as_deletes": changes.deletes,
            "column_list": ", ".join(changes.kept) or None,
            "except_column_list": ", ".join(changes.left_out) or None,
        }

    def newest(self, result: DataFrame) -> DataFrame:
        """Raises FlowError. With DELETED, where changes delete."""
        if self.changes is None:
            return result
        from moldau.spark import expression  # a page is checked without Spark

        refuse_double_columns(result.columns)
        self.check_key(result.columns)
        not_in_table = self.changes.not_in_table(result.columns)
        if self.changes.deletes is not None:
            result = result.withColumn(DELETED, expression(f"coalesce({self.changes.deletes}, false)"))
        changes = expression(_is_in_sequence(self.changes.sequence_by))
        newest = expression(f"max_by(struct(*), {self.changes.sequence_by}) as newest")
        groups = result.where(changes).groupBy(*(quoted(name) for name in self.key)).agg(newest)
        return groups.select("newest.*").drop(*not_in_table)

    def check_key(self, names: Sequence[str]) -> None:
        """`names`: the columns of the SQL's result. Raises FlowError."""
        missing = [name for name in self.key if name not in names]
        if missing:
            raise FlowError(f"sink.key names the column {missing[0]!r}, but the SQL gives {', '.join(names)}")

    def rows_of(self, result: DataFrame) -> DataFrame:
        refuse_double_columns(result.columns)
        self.check_key(result.columns)
        self.check_types(result)
        return result

    def check_types(self, result: DataFrame) -> None:
        """Raises FlowError for a column of a type that LACKS names, or that has such a type inside."""
        lacked = re.compile(rf"(^|[<,:])({'|'.join(self.LACKS)})\b(?!:)")  # a field has its name and a colon before it
        for name, kind in result.dtypes:
            found = lacked.search(kind) if self.LACKS else None
            if found is not None:
                raise FlowError(
                    f"the column {name!r} has the type {kind}, and `{self.NAMED_BY}` has none for {found[2]}: "
                    "cast it to another"
                )


def parse_compact_every(sink: Section) -> int:
    """After how many batches the table joins its small files."""
    return sink.number("compact_every", COMPACT_EVERY, least=1, most=MOST_BATCHES)


def _is_in_sequence(sequence_by: str) -> str:
    """A condition in SQL. `max_by` passes over a row without a place, and so over a change of the table."""
    what = f"a row has no place in `sequence_by: {sequence_by}`, which is null: leave such rows out (`where`)"
    return f"if(({sequence_by}) is null, cast(raise_error({literal(what)}) as boolean), true)"


def commit_again(
    commit: Callable[[], None], refused: type[Exception], attempts: int, table: str, batch_id: int
) -> None:
    """Calls `commit`, at most so many times while another writer is before it (`refused`). Raises TargetError."""
    for attempt in range(1, attempts + 1):
        try:
            commit()
            return
        except refused as error:
            if attempt == attempts:
                raise TargetError(f"another writer changes {table} all the while: {error}") from error
            logger.warning("batch %d goes to %s anew: %s", batch_id, table, error)


def is_committed(newest: int | None, batch_id: int) -> bool:
    """`newest`: the newest batch of this checkpoint that the table holds; None: it has none."""
    return newest is not None and newest >= batch_id


def evaluate(batch: DataFrame) -> None:
    """Runs a batch that the table has, to the end, and writes it nowhere: the query still has to count its records that
    do not parse, and what stands before the target keeps the state of this batch."""
    batch.write.format("noop").mode("overwrite").save()


def check_not_ahead(newest: int | None, query: TargetQuery, table: str) -> None:
    """Raises TargetError where the table holds a batch that the checkpoint has never begun: the checkpoint was put
    back to an older state, so its next batches would be other records under numbers that are taken."""
    from moldau.products.pipelines.checkpoints.checkpoint import newest_planned_batch  # a page is checked without Spark

    planned = newest_planned_batch(query.checkpoint)
    if newest is not None and newest > planned:
        raise TargetError(
            f"{table} holds batch {newest} of the checkpoint {query.checkpoint}, which has only come to batch "
            f"{planned}: it was put back to an older state. Name another directory with `checkpoint`"
        )


def check_keys(rows: pa.Table, key: Sequence[str]) -> None:
    """`rows`: the columns `key` of a batch. Raises TargetError where an upsert could not tell two rows apart."""
    import pyarrow.compute as pc  # a page is checked without it

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
