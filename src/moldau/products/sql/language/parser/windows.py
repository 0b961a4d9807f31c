"""Reads the clause WINDOW, and WITHIN of a join."""

from __future__ import annotations

from moldau.products.sql.language.parser.clauses import WINDOWS
from moldau.products.sql.language.parser.cursor import Cursor
from moldau.products.sql.language.queries import Duration, Window, WindowKind, Within


def read_window(cursor: Cursor) -> Window:
    """Takes `WINDOW kind (...)`. Raises SqlError."""
    start = cursor.next
    cursor.expect("WINDOW")
    kind = WindowKind[cursor.expect_one(WINDOWS)]
    cursor.expect("(")
    if kind is WindowKind.SESSION:
        if cursor.says("SIZE"):
            raise cursor.error("SESSION has no SIZE: write the gap alone, as in SESSION (30 SECONDS)")
        size = cursor.duration("the gap of a session")
    else:
        cursor.expect("SIZE")
        size = cursor.duration("the size of a window")
    advance = _advance(cursor, size) if kind is WindowKind.HOPPING else None
    retention, grace = _retention_and_grace(cursor, kind)
    if retention is not None and retention.milliseconds < size.milliseconds + (grace.milliseconds if grace else 0):
        raise cursor.error("the RETENTION of a window is at least its size and its GRACE PERIOD together", at=start)
    return Window(kind, size, advance, retention, grace, start.line, start.column)


def _advance(cursor: Cursor, size: Duration) -> Duration:
    cursor.expect(",", "ADVANCE", "BY")
    start = cursor.next
    advance = cursor.duration("the advance of a window")
    if advance.milliseconds > size.milliseconds:
        raise cursor.error("a window advances by at most its size: rows between two windows would be lost", at=start)
    return advance


def _retention_and_grace(cursor: Cursor, kind: WindowKind) -> tuple[Duration | None, Duration | None]:
    """Both parts, in any order, and the closing parenthesis."""
    retention: Duration | None = None
    grace: Duration | None = None
    while cursor.takes(","):
        if kind is WindowKind.TUMBLING and cursor.says("ADVANCE"):
            raise cursor.error("TUMBLING has no ADVANCE: write HOPPING for windows that overlap")
        if retention is None and cursor.takes("RETENTION"):
            retention = cursor.duration("the retention of a window")
        elif grace is None and cursor.takes("GRACE"):
            cursor.expect("PERIOD")
            grace = cursor.duration("the grace period of a window", least=0)
        else:
            raise cursor.unexpected("RETENTION or GRACE PERIOD, each once", ["RETENTION", "GRACE"])
    if not cursor.takes(")"):
        raise cursor.unexpected("`,` or `)`")
    return retention, grace


def read_within(cursor: Cursor) -> Within:
    """Takes what follows WITHIN: a duration, or two in parentheses, and GRACE PERIOD. Raises SqlError."""
    what = "the time between two rows that join"
    if cursor.takes("("):
        before = cursor.duration(what, least=0)
        cursor.expect(",")
        after = cursor.duration(what, least=0)
        cursor.expect(")")
    else:
        before = after = cursor.duration(what, least=0)
    grace = None
    if cursor.takes("GRACE"):
        cursor.expect("PERIOD")
        grace = cursor.duration("the grace period of a join", least=0)
    return Within(before, after, grace)
