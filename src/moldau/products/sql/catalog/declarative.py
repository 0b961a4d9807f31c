"""The statements of Spark's Declarative Pipelines, in the words of streams and tables.

A streaming table is a stream: its query, or each flow into it, adds rows. A materialized view is a table: the newest
row of each key of its query.
"""

from __future__ import annotations

import msgspec

from moldau.products.sql.language.parser.script import Parsed
from moldau.products.sql.language.queries import error_of
from moldau.products.sql.language.statements import (
    CreateAs,
    CreateFlow,
    CreateMaterializedView,
    CreateSource,
    CreateStreamingTable,
    Drop,
    Droppable,
    Explain,
    InsertQuery,
    Kind,
    Statement,
)


def in_our_words(parsed: Parsed) -> Parsed:
    """Other statements stay as they are. Raises SqlError."""
    return msgspec.structs.replace(parsed, statement=_meant(parsed.statement))


def _meant(statement: Statement) -> Statement:
    match statement:
        case CreateStreamingTable(name=name, properties=properties, query=None):
            if not statement.columns:
                problem = f"{name.text} has no query: name its columns, which flows fill by their names"
                raise error_of(name, problem)
            return CreateSource(Kind.STREAM, name, statement.columns, properties, if_not_exists=statement.if_not_exists)
        case CreateStreamingTable(name=name, properties=properties, query=query) if query is not None:
            return CreateAs(Kind.STREAM, name, properties, query, if_not_exists=statement.if_not_exists)
        case CreateMaterializedView(name=name, properties=properties, query=query):
            return CreateAs(Kind.TABLE, name, properties, query, if_not_exists=statement.if_not_exists)
        case Explain(what=CreateStreamingTable() | CreateMaterializedView() as what) if what.query is not None:
            return msgspec.structs.replace(statement, what=_meant(what))
        case CreateFlow(target=target, by_name=by_name, query=query):
            return InsertQuery(target, (), by_name, query)
        case Drop(what=Droppable.MATERIALIZED_VIEW, name=name, if_exists=if_exists):
            return Drop(Droppable.TABLE, name, if_exists, statement.deletes_topic)
    return statement
