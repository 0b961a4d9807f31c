"""Reads lists in parentheses: columns, properties, names, values."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.products.sql.language.parser.cursor import MAX_NUMBER, Cursor
from moldau.products.sql.language.parser.type_names import read_type
from moldau.products.sql.language.queries import Fragment, Name
from moldau.products.sql.language.statements import Column, Kind, Property, Role
from moldau.products.sql.language.tokens import Kind as TokenKind

Types = Mapping[str, str]

_HEADERS = "array<struct<key:string,value:binary>>"


def optional_columns(cursor: Cursor, types: Types, kind: Kind | None) -> tuple[Column, ...]:
    """Takes a list of columns if one stands next. `kind`: what they belong to; None for a table without a key. Raises
    SqlError."""
    if not cursor.says("("):
        return ()
    columns = cursor.in_parentheses(lambda: _column(cursor, types, kind))
    _check_once(cursor, [column.name for column in columns], "column")
    whole = [column for column in columns if column.role is Role.HEADERS]
    if len(whole) > 1 or (whole and any(column.role is Role.HEADER for column in columns)):
        raise cursor.error("a column HEADERS has all headers: no other column has headers", at=whole[-1].name)
    return columns


def _column(cursor: Cursor, types: Types, kind: Kind | None) -> Column:
    name = cursor.name("the name of a column")
    found = read_type(cursor, types)
    role, header = _role(cursor, found, kind)
    _check_constraints(cursor)
    if cursor.next.kind is not TokenKind.END and not cursor.next.says(",", ")"):
        known = ["KEY", "PRIMARY", "HEADERS", "HEADER"] if role is Role.VALUE and kind is not None else []
        raise cursor.unexpected("`,` or `)`" if not known else "KEY, PRIMARY KEY, HEADERS, HEADER, `,` or `)`", known)
    return Column(name, found, role, header)


def _role(cursor: Cursor, found: str, kind: Kind | None) -> tuple[Role, str | None]:
    if kind is None and cursor.next.says("PRIMARY", "KEY"):
        raise cursor.error("a streaming table has no key: declare a stream or a table")
    if cursor.says("PRIMARY"):
        start = cursor.take()
        cursor.expect("KEY")
        if kind is not Kind.TABLE:
            raise cursor.error("a stream has no PRIMARY KEY: write KEY for a column of the record's key", at=start)
        return Role.PRIMARY_KEY, None
    if cursor.says("KEY"):
        if kind is not Kind.STREAM:
            raise cursor.error("a table has one row of each key: write PRIMARY KEY")
        cursor.take()
        return Role.KEY, None
    if cursor.says("HEADERS"):
        _check_type(cursor, found, _HEADERS, "ARRAY<STRUCT<key STRING, value BYTES>>")
        cursor.take()
        return Role.HEADERS, None
    if cursor.says("HEADER"):
        _check_type(cursor, found, "binary", "BYTES")
        cursor.take()
        cursor.expect("(")
        header = cursor.string("the key of a header in quotes")
        cursor.expect(")")
        return Role.HEADER, header.text
    return Role.VALUE, None


def _check_type(cursor: Cursor, found: str, wanted: str, written: str) -> None:
    if found.lower() != wanted:
        raise cursor.error(f"a column {cursor.next.text.upper()} has the type {written}")


def _check_constraints(cursor: Cursor) -> None:
    if cursor.says("DEFAULT"):
        raise cursor.error("a column has no DEFAULT: write the value in INSERT, or coalesce(column, value) in a query")
    if cursor.says("NOT"):
        raise cursor.error("a column has no NOT NULL: any column of a record may be absent")


def read_parameters(cursor: Cursor, types: Types) -> tuple[Column, ...]:
    """Takes the parameters of a function. Raises SqlError."""
    if cursor.says("(", ")"):
        cursor.skip_brackets()
        return ()
    parameters = cursor.in_parentheses(lambda: _parameter(cursor, types))
    _check_once(cursor, [one.name for one in parameters], "parameter")
    return parameters


def _parameter(cursor: Cursor, types: Types) -> Column:
    column = Column(cursor.name("the name of a parameter"), read_type(cursor, types))
    if cursor.says("DEFAULT"):
        raise cursor.error("a parameter has no DEFAULT: write all of them in each call")
    return column


def read_properties(cursor: Cursor) -> tuple[Property, ...]:
    """Takes WITH or TBLPROPERTIES and `(name = value, ...)`. Raises SqlError."""
    cursor.take()
    properties = cursor.in_parentheses(lambda: _property(cursor))
    _check_once(cursor, [one.name for one in properties], "property")
    return properties


def _property(cursor: Cursor) -> Property:
    name = cursor.name_or_string("the name of a property")
    while cursor.says("."):
        # a name with dots, as Spark allows
        cursor.take()
        part = cursor.name_or_string("the next part of the name")
        name = Name(f"{name.text}.{part.text}", name.line, name.column)
    cursor.expect("=")
    return Property(Name(name.key, name.line, name.column), _literal(cursor))


def _literal(cursor: Cursor) -> str | int | float | bool:
    what = "a string in quotes, a number, TRUE or FALSE"
    token = cursor.next
    if token.kind is TokenKind.STRING:
        return cursor.string(what).text
    if cursor.takes("TRUE"):
        return True
    if cursor.takes("FALSE"):
        return False
    sign = -1 if cursor.takes("-") else 1
    token = cursor.next
    if token.kind is not TokenKind.NUMBER:
        raise cursor.unexpected(what, ["TRUE", "FALSE"])
    if token.text.isdecimal():
        return sign * cursor.whole_number("a number", most=MAX_NUMBER)
    try:
        number = float(token.text)
    except ValueError:
        raise cursor.unexpected(what) from None
    cursor.take()
    return sign * number


def read_names(cursor: Cursor) -> tuple[Name, ...]:
    """Takes `(name, ...)`. Raises SqlError."""
    names = cursor.in_parentheses(lambda: cursor.name("the name of a column"))
    _check_once(cursor, names, "column")
    return names


def read_values(cursor: Cursor) -> tuple[Fragment, ...]:
    """Takes `(expression, ...)`. Raises SqlError."""
    return cursor.in_parentheses(lambda: cursor.skip_to(lambda: cursor.says(","), "a value"))


def _check_once(cursor: Cursor, names: list[Name] | tuple[Name, ...], what: str) -> None:
    seen: dict[str, Name] = {}
    for name in names:
        first = seen.setdefault(name.key, name)
        if first is not name:
            raise cursor.error(f"the {what} `{name.text}` stands twice; upper and lower case are one", at=name)
