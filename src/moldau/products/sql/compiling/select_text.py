"""One SELECT as Spark SQL: ksqlDB's windows, times and clauses in Spark's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from moldau.products.pipelines.core.statement import quoted
from moldau.products.sql.compiling.composed import Composed, joined
from moldau.products.sql.compiling.expressions import Writing, is_aggregated
from moldau.products.sql.compiling.outputs import Output
from moldau.products.sql.compiling.scope import OWN_COLUMNS, Scope, Source, qualified
from moldau.products.sql.language.queries import Join, JoinKind, Select, Window, WindowKind, Within
from moldau.products.sql.records.layout import EVENT_TIME, PSEUDO_COLUMNS

WINDOW_START, WINDOW_END = "WINDOWSTART", "WINDOWEND"
HOLDS = "_moldau_holds"
"""The column that says whether HAVING holds for the row of a group."""
_LEFT_TIME = "_moldau_left_time"


def window_columns(window: Window | None) -> Mapping[str, str]:
    """ksqlDB's own columns in a SELECT with this window."""
    if window is None:
        return OWN_COLUMNS
    name = "session_window" if window.kind is WindowKind.SESSION else "window"
    return {**OWN_COLUMNS, WINDOW_START: f"unix_millis({name}.start)", WINDOW_END: f"unix_millis({name}.end)"}


def added_columns(
    writing: Writing, select: Select, outputs: Sequence[Output], time: str | None, *, deletes: bool
) -> list[str]:
    """Columns besides those that are selected, as SQL: the bounds of the window, whether HAVING holds if it `deletes`,
    and the time of the rows. `time`: its SQL; None: they have none."""
    windows, names = window_columns(select.window), {one.name.lower() for one in outputs}
    found = []
    if select.window is not None:
        found += [f"{windows[name]} AS {name}" for name in (WINDOW_START, WINDOW_END) if name.lower() not in names]
    if deletes and select.having is not None:
        found.append(f"({writing.sql(select.having, windows).text}) AS {HOLDS}")
    if time is not None:
        found.append(f"{f'max({time})' if is_aggregated(select) else time} AS {EVENT_TIME}")
    return found


def select_sql(
    writing: Writing,
    select: Select,
    outputs: Sequence[Output],
    scope: Scope,
    from_: From,
    *,
    more: Iterable[str] = (),
    having: bool = True,
) -> Composed:
    """`more`: other columns to select, as SQL. `having`: False leaves HAVING out."""
    columns = window_columns(select.window)
    items: list[Composed] = []
    for one in outputs:
        if one.ref is not None:
            items.append(Composed(f"{qualified(scope.sources[one.ref.source], one.ref.name)} AS {quoted(one.name)}"))
        elif one.fragment is not None:
            text = Composed(writing.sql(one.fragment, columns))
            if one.name:
                text.add(f" AS {quoted(one.name)}")
            items.append(text)
    items += map(Composed, more)
    made = Composed("SELECT DISTINCT " if select.is_distinct else "SELECT ", joined(items, ", "), " FROM ", from_.text)
    if select.where is not None:
        made.add(Composed(" WHERE ", writing.sql(select.where)))
    groups = []
    if select.window is not None:
        groups.append(Composed(_window(select.window, from_.time)))
    groups += [Composed(writing.sql(one, columns)) for one in select.group_by]
    if groups:
        made.add(Composed(" GROUP BY ", joined(groups, ", ")))
    if having and select.having is not None:
        made.add(Composed(" HAVING ", writing.sql(select.having, columns)))
    return made


class From(msgspec.Struct, frozen=True):
    """What stands after FROM. `time`: of the rows, as SQL: that of the first relation, or of one that RIGHT JOIN
    keeps."""

    text: Composed
    time: str


def from_sql(writing: Writing, scope: Scope, joins: Sequence[Join]) -> From:
    """FROM with its joins: of what stands before with each of the other relations of the scope. Raises SqlError for
    streams of which no time bounds what Spark keeps."""
    first = scope.sources[0]
    left = _Left(Composed(first.sql, f" AS {quoted(first.called)}"), (first,), qualified(first, EVENT_TIME))
    is_full = False
    for join, source in zip(joins, scope.sources[1:], strict=True):
        within = join.within
        if within is not None and is_full:
            problem = "after a FULL JOIN of streams, the time of either may be missing: make it a stream of its own"
            raise writing.error((join.line, join.column), problem)
        if within is not None and len(left.sources) > 1:
            left = left.in_structs()
        word = "" if join.kind is JoinKind.INNER else f"{join.kind.value.upper()} "
        text = Composed(left.text, f" {word}JOIN ", source.sql, f" AS {quoted(source.called)} ON (")
        text.add(Composed(writing.sql(join.on), ")"))
        if within is not None:
            text.add(f" AND {left.within(within, source)}")
        is_full = within is not None and join.kind is JoinKind.FULL
        left = left.joined(text, join, source)
    return From(left.text, left.time)


class _Left(msgspec.Struct, frozen=True):
    """The left side of a join. `time`: SQL, that of one stream, which every row has. The time of a row is the greatest
    of all streams: at most `spread_ms` later."""

    text: Composed
    sources: tuple[Source, ...]
    time: str
    spread_ms: int = 0

    def within(self, within: Within, right: Source) -> str:
        """The times of WITHIN as a condition, which also bounds the state of Spark's join."""
        before, after = within.before.milliseconds, within.after.milliseconds
        time = qualified(right, EVENT_TIME)
        bounds = _between(time, self.time, before, after + self.spread_ms)
        if len(self.sources) == 1:
            return bounds
        greatest = f"greatest({', '.join(qualified(one, EVENT_TIME) for one in self.sources)})"
        # Spark drops state by comparisons of two columns only, so the bounds that follow stand there too
        return f"{_between(time, greatest, before, after)} AND {bounds}"

    def joined(self, text: Composed, join: Join, right: Source) -> _Left:
        sources = (*self.sources, right)
        if join.within is None:
            return _Left(text, sources, self.time)
        if join.kind is JoinKind.RIGHT:
            return _Left(text, sources, qualified(right, EVENT_TIME), join.within.before.milliseconds)
        return _Left(text, sources, self.time, self.spread_ms + join.within.after.milliseconds)

    def in_structs(self) -> _Left:
        """As a query with a struct for each relation, with its name, so that `a.b` is a field. Spark takes one column
        of event times from each side of a join: the others become plain times."""
        called = {one.called.lower() for one in self.sources}
        items = [f"{_struct(one)} AS {quoted(one.called)}" for one in self.sources]
        # names without a relation; those that several relations have stay ambiguous
        items += [
            f"{qualified(one, name)} AS {quoted(name)}"
            for one in self.sources
            for name in _names(one)
            if name.lower() not in called
        ]
        items += [f"CAST(NULL AS TIMESTAMP) AS {EVENT_TIME}", f"{self.time} AS {_LEFT_TIME}"]
        text = Composed(f"(SELECT {', '.join(items)} FROM ", self.text, ")")
        return _Left(text, self.sources, _LEFT_TIME, self.spread_ms)


def _names(source: Source) -> list[str]:
    """Its columns but for EVENT_TIME."""
    return [*(source.columns or ()), *(name for name in PSEUDO_COLUMNS if name != EVENT_TIME)]


def _struct(source: Source) -> str:
    fields = [f"{qualified(source, name)} AS {quoted(name)}" for name in _names(source)]
    # an expression is no column of event times
    return f"struct({', '.join(fields)}, {qualified(source, EVENT_TIME)} + INTERVAL 0 SECONDS AS {EVENT_TIME})"


def _between(time: str, other: str, before: int, after: int) -> str:
    return f"{time} >= {other} - INTERVAL {before} MILLISECONDS AND {time} <= {other} + INTERVAL {after} MILLISECONDS"


def _window(window: Window, time: str) -> str:
    size = f"'{window.size.milliseconds} milliseconds'"
    if window.kind is WindowKind.SESSION:
        return f"session_window({time}, {size})"
    if window.advance is None:
        return f"window({time}, {size})"
    return f"window({time}, {size}, '{window.advance.milliseconds} milliseconds')"
