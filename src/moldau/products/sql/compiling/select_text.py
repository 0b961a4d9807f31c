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
from moldau.products.sql.records.layout import EVENT_TIME

WINDOW_START, WINDOW_END = "WINDOWSTART", "WINDOWEND"
HOLDS = "_moldau_holds"
"""The column that says whether HAVING holds for the row of a group."""


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
    from_: Composed,
    *,
    more: Iterable[str] = (),
    having: bool = True,
    time: str | None = None,
) -> Composed:
    """`from_`: what stands after FROM. `more`: other columns to select, as SQL. `having`: False leaves HAVING out.
    `time`: the column of the rows' time; None: that of the first relation."""
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
    made = Composed("SELECT DISTINCT " if select.is_distinct else "SELECT ", joined(items, ", "), " FROM ", from_)
    if select.where is not None:
        made.add(Composed(" WHERE ", writing.sql(select.where)))
    groups = []
    if select.window is not None:
        groups.append(Composed(_window(select.window, time or qualified(scope.sources[0], EVENT_TIME))))
    groups += [Composed(writing.sql(one, columns)) for one in select.group_by]
    if groups:
        made.add(Composed(" GROUP BY ", joined(groups, ", ")))
    if having and select.having is not None:
        made.add(Composed(" HAVING ", writing.sql(select.having, columns)))
    return made


def from_sql(writing: Writing, scope: Scope, joins: Sequence[Join]) -> Composed:
    """FROM with its joins: of what stands before with each of the other relations of the scope. Raises SqlError for
    streams of which no time bounds what Spark keeps."""
    first = scope.sources[0]
    made = Composed(first.sql, f" AS {quoted(first.called)}")
    left: _Left | None = _Left((first,), first)
    for join, source in zip(joins, scope.sources[1:], strict=True):
        word = "" if join.kind is JoinKind.INNER else f"{join.kind.value.upper()} "
        made.add(Composed(f" {word}JOIN ", source.sql, f" AS {quoted(source.called)} ON (", writing.sql(join.on), ")"))
        if join.within is None:
            continue
        if left is None:
            problem = "after a FULL JOIN of streams, the time of either may be missing: make it a stream of its own"
            raise writing.error((join.line, join.column), problem)
        made.add(f" AND {left.within(join.within, source)}")
        left = left.joined(join.kind, join.within, source)
    return made


class _Left(msgspec.Struct, frozen=True):
    """The left side of WITHIN: streams that are joined already. Its time is the greatest of theirs. `timed`: the one
    that has a time in every row; the greatest is at most `spread_ms` later."""

    sources: tuple[Source, ...]
    timed: Source
    spread_ms: int = 0

    def within(self, within: Within, right: Source) -> str:
        """The times as a condition, which also bounds the state of Spark's join."""
        before, after = within.before.milliseconds, within.after.milliseconds
        time, timed = qualified(right, EVENT_TIME), qualified(self.timed, EVENT_TIME)
        bounds = _between(time, timed, before, after + self.spread_ms)
        if len(self.sources) == 1:
            return bounds
        greatest = f"greatest({', '.join(qualified(one, EVENT_TIME) for one in self.sources)})"
        # Spark drops state by comparisons of two columns only, so the bounds that follow stand there too
        return f"{_between(time, greatest, before, after)} AND {bounds}"

    def joined(self, kind: JoinKind, within: Within, right: Source) -> _Left | None:
        """The left side of the next join; None if no stream has a time in every row."""
        sources = (*self.sources, right)
        match kind:
            case JoinKind.INNER | JoinKind.LEFT:
                return _Left(sources, self.timed, self.spread_ms + within.after.milliseconds)
            case JoinKind.RIGHT:
                return _Left(sources, right, within.before.milliseconds)
            case JoinKind.FULL:
                return None


def _between(time: str, other: str, before: int, after: int) -> str:
    return f"{time} >= {other} - INTERVAL {before} MILLISECONDS AND {time} <= {other} + INTERVAL {after} MILLISECONDS"


def _window(window: Window, time: str) -> str:
    size = f"'{window.size.milliseconds} milliseconds'"
    if window.kind is WindowKind.SESSION:
        return f"session_window({time}, {size})"
    if window.advance is None:
        return f"window({time}, {size})"
    return f"window({time}, {size}, '{window.advance.milliseconds} milliseconds')"
