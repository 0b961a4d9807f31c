"""Applies change events, in any order, with the keys of `create_auto_cdc_flow` of Spark Declarative Pipelines.

SCD type 1: the table has the newest change of each key, and Spark's state keeps that one. SCD type 2: the table has a
row for each period in which a key had the same values, and Spark's state keeps all changes of the key. The table's rows
follow from these changes alone, not from their order of arrival: a row begins where a run of equal changes begins, and
no other change has a row. So for each change whose row a batch may have created, moved or ended, the batch says whether
it has a row; the table's upsert by key and begin does the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.keys import Choice, Names, Text
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.statement import literal, quoted
from moldau.products.pipelines.targets.target import refuse_double_columns

if TYPE_CHECKING:
    from moldau.spark import DataFrame

DELETED = "_moldau_deleted"
"""The column that marks a row which only removes the table's row of its key. Absent if no row may do so."""
START_AT, END_AT = "__START_AT", "__END_AT"
"""The columns of a history, with Spark's names: the first place in the sequence at which a row is valid, and the first
at which it no longer is (null: it still is)."""

KEY = Names("key", "With `mode: update`: the columns by which a row replaces the older one.")
SEQUENCE_BY = Text(
    "sequence_by",
    "SQL that orders the [changes](changes.md) of a key.",
    absent="each row is newer than those before it",
)
APPLY_AS_DELETES = Text("apply_as_deletes", "SQL: whether a change removes the row of its key.", absent="none does")
COLUMN_LIST = Names("column_list", "The columns of the table.", absent="all")
EXCEPT_COLUMN_LIST = Names("except_column_list", "The columns that the table does not have.")
SCD_TYPE = Choice(
    "stored_as_scd_type",
    ("1", "2"),
    "The newest row of each key, or its [history](changes.md#the-history-of-each-key).",
    default="1",
)
TRACKED = Names(
    "track_history_column_list", "The columns whose new values make another row of the history.", absent="all"
)
UNTRACKED = Names("track_history_except_column_list", "The columns whose new values do not.")
NEEDS_SEQUENCE = (APPLY_AS_DELETES, COLUMN_LIST, EXCEPT_COLUMN_LIST, SCD_TYPE, TRACKED, UNTRACKED)
CHANGE_KEYS = (SEQUENCE_BY, *NEEDS_SEQUENCE)
"""Keys of a target in a pipeline file."""

_CHANGES, _ONE = "_moldau_changes", "_moldau_one_change"
_NOT_COMPARED = re.compile(r"(^|[<,:])(map|variant)\b(?!:)")
_NESTED = ("struct", "array", "map", "variant")


class Changes(msgspec.Struct, frozen=True):
    """SQL over the columns of a row: `sequence_by` orders the changes of a `key`; `deletes` is true for those that
    remove the row; None: none does. `kept`: the columns of the table; (): all but `left_out`. `has_history`: SCD type
    2. `tracked`: the columns whose new values begin another row of a history; (): all but `untracked`."""

    key: tuple[str, ...]
    sequence_by: str
    deletes: str | None = None
    kept: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    has_history: bool = False
    tracked: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()

    @property
    def key_in_table(self) -> tuple[str, ...]:
        return (*self.key, START_AT) if self.has_history else self.key

    def facts(self) -> dict[str, str | None]:
        return {
            "key": ", ".join(self.key),
            "sequence_by": self.sequence_by,
            "apply_as_deletes": self.deletes,
            "column_list": ", ".join(self.kept) or None,
            "except_column_list": ", ".join(self.left_out) or None,
            "stored_as_scd_type": "2" if self.has_history else None,
            "track_history_column_list": ", ".join(self.tracked) or None,
            "track_history_except_column_list": ", ".join(self.untracked) or None,
        }

    def rows(self, result: DataFrame) -> DataFrame:
        """The rows to upsert into the table, from the changes in `result`. Raises FlowError."""
        from moldau.spark import expression  # a pipeline file is checked without Spark

        refuse_double_columns(result.columns)
        check_key(result.columns, self.key)
        columns = _chosen(result.columns, "column_list", self.kept, self.left_out)
        result = result.where(expression(_is_in_sequence(self.sequence_by)))
        return self._history(result, columns) if self.has_history else self._newest(result, columns)

    def _newest(self, result: DataFrame, columns: Sequence[str]) -> DataFrame:
        """With DELETED, if changes can delete."""
        from moldau.spark import expression

        if self.deletes is not None:
            result = result.withColumn(DELETED, expression(f"coalesce({self.deletes}, false)"))
            columns = (*columns, DELETED)
        newest = expression(f"max_by(struct(*), {self.sequence_by}) as newest")
        groups = result.groupBy(*map(quoted, self.key)).agg(newest)
        return groups.select(*(f"newest.{quoted(name)}" for name in columns))

    def _history(self, result: DataFrame, columns: Sequence[str]) -> DataFrame:
        """With START_AT, END_AT and DELETED. Raises FlowError."""
        from moldau.spark import expression

        tracked = self._tracked(result, columns)
        row = ", ".join(map(quoted, columns))
        change = (
            f"struct({self.sequence_by} as place, current_timestamp() as came, "
            f"coalesce({self.deletes or 'false'}, false) as gone, struct({row}) as row) as {_CHANGES}"
        )
        key = [quoted(name) for name in self.key]
        # a separate step, because Spark does not allow the batch's time in the aggregate
        groups = result.selectExpr(*key, change).groupBy(*key)
        # Spark's state stores a list as bytes, and would read them as rows of any columns; the single change next to
        # the list makes it reject other types
        kept = (f"collect_list({_CHANGES}) as {_CHANGES}", f"any_value({_CHANGES}) as {_ONE}")
        told = groups.agg(*map(expression, kept)).selectExpr(f"if({_ONE} is null, null, {_CHANGES}) as changes")
        for step in history_steps(tracked):
            told = told.selectExpr(*step)
        rows = told.selectExpr(
            *(f"row.{quoted(name)}" for name in columns), f"begins as {START_AT}", f"ends as {END_AT}",
            f"gone as {DELETED}",
        )  # fmt: skip
        place = dict(rows.dtypes)[START_AT]
        if place.startswith(_NESTED):
            raise FlowError(
                f"`sequence_by: {self.sequence_by}` has the type {place}, but a history needs one value, which becomes "
                f"a key of the table: a number, a text or a time"
            )
        return rows

    def _tracked(self, result: DataFrame, columns: Sequence[str]) -> list[str]:
        """Raises FlowError."""
        chosen = _chosen(columns, "track_history_column_list", self.tracked, self.untracked)
        tracked = [name for name in chosen if name not in self.key]
        for name, kind in result.dtypes:
            if name in tracked and _NOT_COMPARED.search(kind):
                raise FlowError(
                    f"the column {name!r} has the type {kind}, whose values Spark does not compare: name it in "
                    "`track_history_except_column_list`, or cast it to another"
                )
        return tracked


def parse_changes(sink: Section) -> Changes | None:
    """The keys about changes; None without any. Raises SpecError."""
    if not sink.has(SEQUENCE_BY):
        for key in NEEDS_SEQUENCE:
            if sink.has(key):
                sink.refuse(key, "needs `sequence_by`: SQL that orders the changes of a key")
        return None
    columns_of_key = KEY.of(sink)
    has_history = SCD_TYPE.of(sink) == "2"
    kept, left_out = _one_of_two(sink, COLUMN_LIST, EXCEPT_COLUMN_LIST)
    tracked, untracked = _one_of_two(sink, TRACKED, UNTRACKED)
    if kept and not set(columns_of_key) <= set(kept):
        sink.refuse(COLUMN_LIST, "must have the columns of the `key` too")
    if set(columns_of_key) & set(left_out):
        sink.refuse(EXCEPT_COLUMN_LIST, "must not leave out the `key`")
    for word in (TRACKED, UNTRACKED):
        if sink.has(word) and not has_history:
            sink.refuse(word, "needs `stored_as_scd_type: 2`, with which the table has the history of each key")
    deletes = APPLY_AS_DELETES.if_given(sink)
    return Changes(columns_of_key, SEQUENCE_BY.of(sink), deletes, kept, left_out, has_history, tracked, untracked)


def check_key(names: Sequence[str], key: Sequence[str]) -> None:
    """`names`: the columns of the SQL's result. Raises FlowError."""
    missing = [name for name in key if name not in names]
    if missing:
        raise FlowError(f"sink.key names the column {missing[0]!r}, but the SQL gives {', '.join(names)}")


def history_steps(tracked: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The SELECT lists, each over the result of the previous one, that turn the `changes` of a key into rows (`row`,
    `begins`, `ends`, `gone`). `changes` is an array of structs: their place in the sequence, when they `came`, whether
    they remove the row (`gone`), and the `row`. The result has every row that this batch's changes may have affected.
    The table must not have a row that is `gone`, whatever it had before."""
    # of several changes at one place, one that removes the row wins, otherwise the first to arrive
    yield (
        "array_sort(changes, (one, other) -> case"
        " when one.place < other.place then -1 when one.place > other.place then 1"
        " when one.gone <> other.gone then if(one.gone, -1, 1)"
        " when one.came < other.came then -1 when one.came > other.came then 1 else 0 end) as changes",
    )
    yield ("filter(changes, (one, i) -> not one.place <=> get(changes, i - 1).place) as changes",)
    same = " and ".join(f"one.row.{name} <=> get(changes, i - 1).row.{name}" for name in map(quoted, tracked))
    yield (
        "transform(changes, (one, i) -> struct(one.place as place, one.came = current_timestamp() as is_new,"
        " one.gone as gone, one.row as row,"
        f" not one.gone and (coalesce(get(changes, i - 1).gone, true) or not ({same or 'true'})) as begins)"
        ") as changes",
        "sequence(0, size(changes) - 1) as numbers",
    )
    yield ("*", "filter(numbers, i -> get(changes, i).begins or get(changes, i).gone) as bounds")
    yield (
        "*",
        "transform(bounds, (head, i) -> struct(head as head, coalesce(get(bounds, i + 1), size(changes)) as behind))"
        " as runs",
    )
    # a new change may begin a row, end the previous one, and decide whether the next change begins one
    yield (
        "changes",
        "filter(runs, run -> get(changes, run.head).begins and exists(slice("
        "changes, greatest(run.head, 1), run.behind - greatest(run.head, 1) + 2), one -> one.is_new)) as runs",
        "filter(numbers, i -> not get(changes, i).begins and"
        " (get(changes, i).is_new or coalesce(get(changes, i - 1).is_new, false))) as others",
    )
    yield (
        "inline(concat("
        "transform(runs, run -> struct(get(changes, run.behind - 1).row as row,"
        " get(changes, run.head).place as begins, get(changes, run.behind).place as ends, false as gone)),"
        "transform(others, i -> struct(get(changes, i).row as row, get(changes, i).place as begins,"
        " get(changes, -1).place as ends, true as gone))))",
    )


def _chosen(names: Sequence[str], key: str, kept: Sequence[str], left_out: Sequence[str]) -> list[str]:
    """The `names` that are `kept`, or are not `left_out`. `key`: the pipeline key for `kept`. Raises FlowError."""
    known = [name.lower() for name in names]
    for word, listed in ((key, kept), (key.replace("column", "except_column"), left_out)):
        missing = [name for name in listed if name.lower() not in known]
        if missing:
            raise FlowError(f"`{word}` names {missing[0]!r}, but the SQL gives {', '.join(names)}")
    is_kept, is_left_out = {name.lower() for name in kept}, {name.lower() for name in left_out}
    return [
        name for name, low in zip(names, known, strict=True) if low not in is_left_out and (not kept or low in is_kept)
    ]


def _one_of_two(sink: Section, key: Names, opposite: Names) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names in `key` and in its opposite; at most one may be set."""
    kept, left_out = key.of(sink), opposite.of(sink)
    if kept and left_out:
        sink.refuse(key, f"and `{opposite}` say the same in two ways: write one of them")
    return kept, left_out


def _is_in_sequence(sequence_by: str) -> str:
    """A SQL condition that fails for a null. An aggregate would skip a row without a place, and so lose a change."""
    what = f"a row has no place in `sequence_by: {sequence_by}`, which is null: leave such rows out (`where`)"
    return f"if(({sequence_by}) is null, cast(raise_error({literal(what)}) as boolean), true)"
