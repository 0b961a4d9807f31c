"""Reads CREATE and DROP."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.products.sql.language.parser.columns import optional_columns, read_parameters, read_properties
from moldau.products.sql.language.parser.cursor import Cursor, listed
from moldau.products.sql.language.parser.queries import read_query
from moldau.products.sql.language.parser.refused import check_create, check_drop
from moldau.products.sql.language.parser.type_names import read_type
from moldau.products.sql.language.statements import (
    CreateAs,
    CreateFlow,
    CreateFunction,
    CreateMaterializedView,
    CreateSource,
    CreateStreamingTable,
    CreateType,
    CreateView,
    Drop,
    Droppable,
    Kind,
    Property,
    Role,
    Statement,
)

Types = Mapping[str, str]

_CREATED = (
    "STREAM", "TABLE", "SOURCE STREAM", "SOURCE TABLE", "STREAMING TABLE", "FLOW", "MATERIALIZED VIEW", "VIEW",
    "TEMPORARY VIEW", "FUNCTION", "TYPE",
)  # fmt: skip
_FIRST_WORDS = sorted({"OR", *(words.partition(" ")[0] for words in _CREATED)})
_BATCH = (
    "USING", "PARTITIONED", "CLUSTER", "CLUSTERED", "OPTIONS", "LOCATION", "TBLPROPERTIES", "STORED", "ROW", "LIKE",
    "COMMENT",
)  # fmt: skip
"""Words that begin clauses of Spark's tables."""


def read_create(cursor: Cursor, types: Types) -> Statement:
    """Takes a CREATE statement. `types`: the types of CREATE TYPE, by their names in lower case. Raises SqlError."""
    cursor.expect("CREATE")
    check_create(cursor)
    start = cursor.next
    or_replace = cursor.takes("OR")
    if or_replace:
        cursor.expect("REPLACE")
        check_create(cursor)
    if cursor.takes("SOURCE"):
        kind = Kind[cursor.expect_one(("STREAM", "TABLE"))]
        return _source(cursor, types, kind, or_replace=or_replace, is_read_only=True)
    if cursor.says("STREAM") or cursor.says("TABLE"):
        kind = Kind[cursor.take().text.upper()]
        return _source(cursor, types, kind, or_replace=or_replace, is_read_only=False)
    is_temporary = cursor.takes("TEMPORARY") or cursor.takes("TEMP")
    if cursor.takes("VIEW"):
        return _view(cursor, or_replace=or_replace, is_temporary=is_temporary)
    if cursor.takes("FUNCTION"):
        return _function(cursor, types, or_replace=or_replace, is_temporary=is_temporary)
    if is_temporary:
        raise cursor.unexpected("VIEW or FUNCTION", ["VIEW", "FUNCTION"])
    if or_replace and cursor.next.says("STREAMING", "FLOW", "MATERIALIZED", "TYPE"):
        raise cursor.error(f"OR REPLACE does not stand with {cursor.next.text.upper()}", at=start)
    return _of_pipelines(cursor, types)


def _of_pipelines(cursor: Cursor, types: Types) -> Statement:
    """What is created without OR REPLACE."""
    if cursor.takes("STREAMING"):
        cursor.expect("TABLE")
        return _streaming_table(cursor, types)
    if cursor.takes("FLOW"):
        return _flow(cursor)
    if cursor.takes("MATERIALIZED"):
        cursor.expect("VIEW")
        return _materialized_view(cursor)
    if cursor.takes("TYPE"):
        if_not_exists = _if_not_exists(cursor)
        name = cursor.name("the name of a type")
        cursor.expect("AS")
        kind = read_type(cursor, types)
        cursor.expect_end()
        return CreateType(name, kind, if_not_exists)
    raise cursor.unexpected(f"one of {', '.join(_CREATED)}", _FIRST_WORDS)


def _source(cursor: Cursor, types: Types, kind: Kind, *, or_replace: bool, is_read_only: bool) -> Statement:
    """`STREAM name (columns) WITH (...)`, or `STREAM name WITH (...) AS query`."""
    if_not_exists = _if_not_exists(cursor)
    name = cursor.name(f"the name of a {kind.value}")
    _check_batch(cursor, kind)
    columns = optional_columns(cursor, types, kind)
    _check_batch(cursor, kind)
    properties = read_properties(cursor) if cursor.says("WITH") else ()
    if cursor.says("AS"):
        if columns:
            raise cursor.error(f"CREATE {kind.name} ... AS has no list of columns: the query names them")
        if is_read_only:
            raise cursor.error("CREATE SOURCE only reads a topic, and a query writes one: write CREATE without SOURCE")
        cursor.take()
        return CreateAs(kind, name, properties, read_query(cursor), or_replace, if_not_exists)
    if not properties:
        known = ["WITH"] if columns or is_read_only else ["WITH", "AS"]
        raise cursor.unexpected(listed(known if columns else ["a list of columns", *known]), known)
    cursor.expect_end(*(() if columns or is_read_only else ("AS",)))
    # a registry's schema of the key may name it
    may_have_schema = any(one.name.key in ("key_format", "format") for one in properties)
    has_key = any(column.role is Role.PRIMARY_KEY for column in columns)
    if kind is Kind.TABLE and columns and not has_key and not may_have_schema:
        raise cursor.error(
            f"the table `{name.text}` has no key: write PRIMARY KEY after the type of its key column", at=name
        )
    return CreateSource(kind, name, columns, properties, or_replace, if_not_exists, is_read_only)


def _check_batch(cursor: Cursor, kind: Kind) -> None:
    """Rejects the clauses of Spark's tables."""
    word = cursor.next.text.upper()
    if cursor.next.says(*_BATCH):
        raise cursor.error(
            f"`{word}` belongs to Spark's batch tables, which are not served: here CREATE {kind.name} declares a "
            "topic, with WITH (kafka_topic = '...')"
        )


def _streaming_table(cursor: Cursor, types: Types) -> CreateStreamingTable:
    if_not_exists = _if_not_exists(cursor)
    name = cursor.name("the name of a table")
    columns = optional_columns(cursor, types, None)
    comment, properties = _comment_and_properties(cursor)
    query = None
    if cursor.takes("AS"):
        query = read_query(cursor)
    cursor.expect_end("AS", "COMMENT", "TBLPROPERTIES")
    return CreateStreamingTable(name, columns, comment, properties, query, if_not_exists)


def _materialized_view(cursor: Cursor) -> CreateMaterializedView:
    if_not_exists = _if_not_exists(cursor)
    name = cursor.name("the name of a view")
    comment, properties = _comment_and_properties(cursor)
    _expect_as(cursor, "COMMENT", "TBLPROPERTIES")
    return CreateMaterializedView(name, comment, properties, read_query(cursor), if_not_exists)


def _flow(cursor: Cursor) -> CreateFlow:
    name = cursor.name("the name of a flow")
    comment = cursor.string("a comment in quotes").text if cursor.takes("COMMENT") else None
    _expect_as(cursor, "COMMENT")
    cursor.expect("INSERT", "INTO")
    target = cursor.name("the name of a table")
    by_name = cursor.takes("BY", "NAME")
    return CreateFlow(name, comment, target, by_name, read_query(cursor))


def _comment_and_properties(cursor: Cursor) -> tuple[str | None, tuple[Property, ...]]:
    """COMMENT and TBLPROPERTIES, in any order."""
    comment: str | None = None
    properties: tuple[Property, ...] = ()
    while True:
        if cursor.next.says("USING", "PARTITIONED", "CLUSTER", "CLUSTERED", "OPTIONS", "LOCATION"):
            raise cursor.error(
                f"`{cursor.next.text.upper()}` says how Spark stores a table; here its rows are in a topic, which "
                "TBLPROPERTIES ('partitions' = '6') describes"
            )
        if comment is None and cursor.takes("COMMENT"):
            comment = cursor.string("a comment in quotes").text
        elif not properties and cursor.says("TBLPROPERTIES"):
            properties = read_properties(cursor)
        else:
            return comment, properties


def _view(cursor: Cursor, *, or_replace: bool, is_temporary: bool) -> CreateView:
    if_not_exists = _if_not_exists(cursor)
    name = cursor.name("the name of a view")
    if cursor.says("("):
        raise cursor.error("a view has no list of columns: name them in its query, as in SELECT a AS b")
    _expect_as(cursor)
    return CreateView(name, read_query(cursor), is_temporary, or_replace, if_not_exists)


def _function(cursor: Cursor, types: Types, *, or_replace: bool, is_temporary: bool) -> CreateFunction:
    """`FUNCTION name(parameters) RETURNS type RETURN expression`."""
    if_not_exists = _if_not_exists(cursor)
    name = cursor.name("the name of a function")
    if cursor.says("AS"):
        raise cursor.error("a function here is an expression, not a class: write name(a INT) RETURNS INT RETURN a + 1")
    parameters = read_parameters(cursor, types)
    returns = None
    if cursor.takes("RETURNS"):
        if cursor.says("TABLE"):
            raise cursor.error("a function here returns one value: RETURNS TABLE is not served")
        returns = read_type(cursor, types)
    while cursor.takes("LANGUAGE", "SQL") or cursor.takes("DETERMINISTIC") or cursor.takes("CONTAINS", "SQL"):
        pass
    if cursor.says("LANGUAGE"):
        raise cursor.error("a function of CREATE FUNCTION is written in SQL: write LANGUAGE SQL, or nothing")
    if not cursor.takes("RETURN"):
        raise cursor.unexpected("RETURN and an expression", ["RETURN", "RETURNS"])
    body = cursor.skip_to(lambda: False, "an expression")
    cursor.expect_end()
    return CreateFunction(name, parameters, returns, body, is_temporary, or_replace, if_not_exists)


def _expect_as(cursor: Cursor, *others: str) -> None:
    if not cursor.takes("AS"):
        raise cursor.unexpected("AS and a query", ["AS", *others])


def _if_not_exists(cursor: Cursor) -> bool:
    if not cursor.takes("IF"):
        return False
    cursor.expect("NOT", "EXISTS")
    return True


def read_drop(cursor: Cursor) -> Drop:
    """Takes a DROP statement. Raises SqlError."""
    cursor.expect("DROP")
    check_drop(cursor)
    what = _droppable(cursor)
    if_exists = cursor.takes("IF")
    if if_exists:
        cursor.expect("EXISTS")
    name = cursor.name(f"the name of a {what.value}")
    deletes_topic = False
    if what in (Droppable.STREAM, Droppable.TABLE):
        deletes_topic = cursor.takes("DELETE")
        if deletes_topic:
            cursor.expect("TOPIC")
        cursor.expect_end(*(() if deletes_topic else ("DELETE TOPIC",)))
    cursor.expect_end()
    return Drop(what, name, if_exists, deletes_topic)


def _droppable(cursor: Cursor) -> Droppable:
    is_temporary = cursor.takes("TEMPORARY")
    if is_temporary and not cursor.says("FUNCTION"):
        raise cursor.unexpected("FUNCTION", ["FUNCTION"])
    if cursor.takes("MATERIALIZED"):
        cursor.expect("VIEW")
        return Droppable.MATERIALIZED_VIEW
    return Droppable[cursor.expect_one(one.name for one in Droppable if one is not Droppable.MATERIALIZED_VIEW)]
