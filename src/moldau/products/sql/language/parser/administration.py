"""Reads the statements that are not definitions: INSERT, SHOW, DESCRIBE, PRINT and others."""

from __future__ import annotations

from collections.abc import Callable

from moldau.products.sql.language.parser.clauses import starts_query
from moldau.products.sql.language.parser.columns import read_names, read_values
from moldau.products.sql.language.parser.cursor import Cursor
from moldau.products.sql.language.parser.queries import read_query
from moldau.products.sql.language.queries import Fragment, Name
from moldau.products.sql.language.statements import (
    Action,
    Control,
    Define,
    Describe,
    DescribeFunction,
    InsertQuery,
    InsertValues,
    Print,
    RunScript,
    SetProperty,
    Show,
    Statement,
    Subject,
)
from moldau.products.sql.language.tokens import Kind
from moldau.types import counted

MAX_ROWS = 1000
"""The most rows of one INSERT."""

_EXTENDED = (Subject.STREAMS, Subject.TABLES, Subject.VIEWS, Subject.QUERIES, Subject.TOPICS)


def read_insert(cursor: Cursor) -> Statement:
    """Takes `INSERT INTO name (columns) VALUES ...`, or a query instead of VALUES. Raises SqlError."""
    cursor.expect("INSERT", "INTO")
    target = cursor.name("the name of a stream or table")
    columns: tuple[Name, ...] = ()
    if cursor.says("(") and not starts_query(cursor):
        columns = read_names(cursor)
    if cursor.takes("VALUES"):
        return InsertValues(target, columns, _rows(cursor, columns))
    if cursor.says("WITH", "("):
        raise cursor.error("INSERT INTO has no properties: SHOW QUERIES lists the id of its query")
    start = cursor.next
    by_name = cursor.takes("BY", "NAME")
    if by_name and columns:
        raise cursor.error("BY NAME does not stand with a list of columns", at=start)
    if not starts_query(cursor):
        known = ["VALUES", "SELECT", "WITH", "FROM"]
        raise cursor.unexpected("VALUES or a query", known)
    return InsertQuery(target, columns, by_name, read_query(cursor))


def _rows(cursor: Cursor, columns: tuple[Name, ...]) -> tuple[tuple[Fragment, ...], ...]:
    rows: list[tuple[Fragment, ...]] = []
    while True:
        start = cursor.next
        if len(rows) == MAX_ROWS:
            raise cursor.error(f"one INSERT has at most {MAX_ROWS} rows: write several")
        row = read_values(cursor)
        wanted = len(columns) or len(rows[0] if rows else row)
        if len(row) != wanted:
            of_what = (
                f"{counted(wanted, 'column')} named" if columns else f"{counted(wanted, 'value')} in the first row"
            )
            raise cursor.error(f"the row has {counted(len(row), 'value')}, with {of_what}", at=start)
        rows.append(row)
        if not cursor.takes(","):
            break
    cursor.expect_end("`,`")
    return tuple(rows)


def read_show(cursor: Cursor) -> Show:
    """Takes `SHOW|LIST subject EXTENDED`. Raises SqlError."""
    cursor.take()
    all_topics = cursor.says("ALL", "TOPICS")
    if all_topics:
        cursor.take()
    subject = Subject[cursor.expect_one(one.name for one in Subject)]
    is_extended = subject in _EXTENDED and cursor.takes("EXTENDED")
    cursor.expect_end(*(("EXTENDED",) if subject in _EXTENDED and not is_extended else ()))
    return Show(subject, is_extended, all_topics)


def read_describe(cursor: Cursor) -> Statement:
    """Takes `DESCRIBE name EXTENDED`, with EXTENDED on either side, or `DESCRIBE FUNCTION name`. Raises SqlError."""
    cursor.take()
    if cursor.says("FUNCTION") and cursor.ahead(1).kind is not Kind.END:
        cursor.take()
        name = cursor.name("the name of a function")
        cursor.expect_end()
        return DescribeFunction(name)
    is_extended = cursor.says("EXTENDED") and cursor.ahead(1).is_name
    if is_extended:
        cursor.take()
    name = cursor.name("the name of a stream, table or view")
    is_extended = cursor.takes("EXTENDED") or is_extended
    cursor.expect_end(*(() if is_extended else ("EXTENDED",)))
    return Describe(name, is_extended)


def read_print(cursor: Cursor) -> Print:
    """Takes `PRINT topic FROM BEGINNING INTERVAL n LIMIT n`. Raises SqlError."""
    cursor.expect("PRINT")
    topic = cursor.name_or_string("the name of a topic")
    if not cursor.next.before and cursor.next.says("-", "."):
        raise cursor.error("a topic with such a name stands in quotes, as in PRINT 'my-topic'")
    from_beginning = cursor.takes("FROM")
    if from_beginning:
        cursor.expect("BEGINNING")
    interval = 1
    has_interval = cursor.takes("INTERVAL") or cursor.takes("SAMPLE")
    if has_interval:
        interval = cursor.whole_number("the distance of the shown records", least=1)
    limit = cursor.whole_number("the number of records", least=1) if cursor.takes("LIMIT") else None
    rest = (("FROM BEGINNING",) * (not from_beginning) + ("INTERVAL",)) * (not has_interval) + ("LIMIT",)
    cursor.expect_end(*(rest if limit is None else ()))
    return Print(topic, from_beginning, interval, limit)


def read_control(cursor: Cursor) -> Control:
    """Takes `PAUSE|RESUME|TERMINATE query_id|ALL`. Raises SqlError."""
    action = Action[cursor.take().text.upper()]
    query = None if cursor.takes("ALL") else cursor.name("the id of a query, or ALL")
    cursor.expect_end()
    return Control(action, query)


def read_set(cursor: Cursor) -> SetProperty:
    """Takes `SET 'name' = 'value'` or `UNSET 'name'`. Raises SqlError."""
    is_set = cursor.take().says("SET")
    name = cursor.string("the name of a property in quotes")
    value = None
    if is_set:
        cursor.expect("=")
        value = cursor.string("a value in quotes").text
    cursor.expect_end()
    return SetProperty(name, value)


def read_define(cursor: Cursor) -> Define:
    """Takes `DEFINE name = 'value'` or `UNDEFINE name`. Raises SqlError."""
    is_define = cursor.take().says("DEFINE")
    token = cursor.next
    name = cursor.name("the name of a variable")
    if token.kind is Kind.NAME or token.text[0].isdecimal():
        raise cursor.error("a variable's name is letters, digits and `_`, without quotes", at=token)
    value = None
    if is_define:
        cursor.expect("=")
        value = cursor.string("a value in quotes").text
    cursor.expect_end()
    return Define(name, value)


def read_run(cursor: Cursor) -> RunScript:
    """Takes `RUN SCRIPT 'path'`. Raises SqlError."""
    cursor.expect("RUN", "SCRIPT")
    path = cursor.string("the path of a file in quotes")
    cursor.expect_end()
    return RunScript(path)


READERS: dict[str, Callable[[Cursor], Statement]] = {
    "INSERT": read_insert,
    "SHOW": read_show,
    "LIST": read_show,
    "DESCRIBE": read_describe,
    "DESC": read_describe,
    "PRINT": read_print,
    "PAUSE": read_control,
    "RESUME": read_control,
    "TERMINATE": read_control,
    "SET": read_set,
    "UNSET": read_set,
    "DEFINE": read_define,
    "UNDEFINE": read_define,
    "RUN": read_run,
}
"""The reader of a statement, by its first word."""
