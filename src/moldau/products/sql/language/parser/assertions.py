"""Reads ASSERT."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.products.sql.language.parser.columns import optional_columns, read_names, read_properties, read_values
from moldau.products.sql.language.parser.cursor import Cursor
from moldau.products.sql.language.queries import Duration, Name
from moldau.products.sql.language.statements import (
    AssertSchema,
    AssertSource,
    AssertTombstone,
    AssertTopic,
    AssertValues,
    Kind,
    Statement,
)
from moldau.types import counted

_WORDS = ("STREAM", "TABLE", "VALUES", "NULL", "TOMBSTONE", "TOPIC", "SCHEMA", "NOT")
_MOST_ID = 2**31 - 1


def read_assert(cursor: Cursor, types: Mapping[str, str]) -> Statement:
    """Takes an ASSERT statement. `types`: the types of CREATE TYPE. Raises SqlError."""
    cursor.expect("ASSERT")
    if cursor.takes("NOT"):
        cursor.expect("EXISTS")
        if not (cursor.says("TOPIC") or cursor.says("SCHEMA")):
            raise cursor.unexpected("TOPIC or SCHEMA", ["TOPIC", "SCHEMA"])
        return _outside(cursor, exists=False)
    if cursor.says("TOPIC") or cursor.says("SCHEMA"):
        return _outside(cursor, exists=True)
    if cursor.says("STREAM") or cursor.says("TABLE"):
        return _source(cursor, types)
    if cursor.takes("VALUES"):
        name, columns = _target(cursor)
        cursor.expect("VALUES")
        values = read_values(cursor)
        _check_count(cursor, columns, len(values), "value")
        return AssertValues(name, columns, values)
    if cursor.takes("NULL", "VALUES") or cursor.takes("TOMBSTONE"):
        name, columns = _target(cursor)
        cursor.expect("KEY")
        key = read_values(cursor)
        _check_count(cursor, columns, len(key), "value")
        return AssertTombstone(name, columns, key)
    if cursor.takes("NULL"):
        raise cursor.unexpected("VALUES", ["VALUES"])
    raise cursor.unexpected("STREAM, TABLE, VALUES, NULL VALUES, TOPIC, SCHEMA or NOT EXISTS", _WORDS)


def _source(cursor: Cursor, types: Mapping[str, str]) -> AssertSource:
    kind = Kind[cursor.take().text.upper()]
    name = cursor.name(f"the name of a {kind.value}")
    columns = optional_columns(cursor, types, kind)
    properties = read_properties(cursor) if cursor.says("WITH") else ()
    cursor.expect_end(*(() if properties else ("WITH",)))
    return AssertSource(kind, name, columns, properties)


def _target(cursor: Cursor) -> tuple[Name, tuple[Name, ...]]:
    name = cursor.name("the name of a stream or table")
    return name, read_names(cursor) if cursor.says("(") else ()


def _check_count(cursor: Cursor, columns: tuple[Name, ...], count: int, what: str) -> None:
    cursor.expect_end()
    if columns and count != len(columns):
        raise cursor.error(f"{counted(len(columns), 'column')} named, with {counted(count, what)}", at=columns[0])


def _outside(cursor: Cursor, *, exists: bool) -> Statement:
    """`TOPIC name WITH (...) TIMEOUT n SECONDS`, or SCHEMA with subject and id."""
    if cursor.takes("TOPIC"):
        topic = cursor.name_or_string("the name of a topic")
        properties = read_properties(cursor) if cursor.says("WITH") else ()
        timeout = _timeout(cursor)
        cursor.expect_end(*(() if timeout else ("WITH", "TIMEOUT")))
        return AssertTopic(topic, properties, exists, timeout)
    cursor.expect("SCHEMA")
    subject = cursor.name_or_string("the name of a subject") if cursor.takes("SUBJECT") else None
    schema_id = cursor.whole_number("the id of a schema", most=_MOST_ID) if cursor.takes("ID") else None
    if subject is None and schema_id is None:
        raise cursor.unexpected("SUBJECT or ID", ["SUBJECT", "ID"])
    timeout = _timeout(cursor)
    cursor.expect_end(*(() if timeout else ("TIMEOUT",)))
    return AssertSchema(subject, schema_id, exists, timeout)


def _timeout(cursor: Cursor) -> Duration | None:
    return cursor.duration("the timeout", least=0) if cursor.takes("TIMEOUT") else None
