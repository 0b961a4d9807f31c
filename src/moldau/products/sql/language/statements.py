"""Statements as values: one class each."""

from __future__ import annotations

import enum

import msgspec

from moldau.products.sql.language.queries import Duration, Fragment, Name, Query


class Kind(enum.Enum):
    """What a definition makes. A stream is a topic; a table is the newest row of each key of a topic."""

    STREAM = "stream"
    TABLE = "table"


class Role(enum.Enum):
    """Where in a record a column is. HEADERS: all headers. HEADER: the value of one."""

    VALUE = "value"
    KEY = "key"
    PRIMARY_KEY = "primary key"
    HEADERS = "headers"
    HEADER = "header"


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A declared column. `type`: Spark's name of the type, as in DDL. `header`: the header's key, for Role.HEADER."""

    name: Name
    type: str
    role: Role = Role.VALUE
    header: str | None = None


class Property(msgspec.Struct, frozen=True):
    """`name = value` of WITH. The name is in lower case."""

    name: Name
    value: str | int | float | bool


class Statement(msgspec.Struct, frozen=True):
    """A statement of the language."""


class CreateSource(Statement, frozen=True):
    """`CREATE STREAM|TABLE name (columns) WITH (properties)`. `columns`: () if a registry's schema gives them.
    `is_read_only`: CREATE SOURCE; nothing writes there, and DROP leaves the topic."""

    kind: Kind
    name: Name
    columns: tuple[Column, ...]
    properties: tuple[Property, ...]
    or_replace: bool = False
    if_not_exists: bool = False
    is_read_only: bool = False


class CreateAs(Statement, frozen=True):
    """`CREATE STREAM|TABLE name WITH (properties) AS query`: the query runs until it is terminated."""

    kind: Kind
    name: Name
    properties: tuple[Property, ...]
    query: Query
    or_replace: bool = False
    if_not_exists: bool = False


class CreateStreamingTable(Statement, frozen=True):
    """Spark's `CREATE STREAMING TABLE name (columns) AS query`. `query`: None if flows fill it."""

    name: Name
    columns: tuple[Column, ...]
    comment: str | None
    properties: tuple[Property, ...]
    query: Query | None
    if_not_exists: bool = False


class CreateFlow(Statement, frozen=True):
    """Spark's `CREATE FLOW name AS INSERT INTO target BY NAME query`."""

    name: Name
    comment: str | None
    target: Name
    by_name: bool
    query: Query


class CreateMaterializedView(Statement, frozen=True):
    """Spark's `CREATE MATERIALIZED VIEW name AS query`."""

    name: Name
    comment: str | None
    properties: tuple[Property, ...]
    query: Query
    if_not_exists: bool = False


class CreateView(Statement, frozen=True):
    """`CREATE VIEW name AS query`: a query with a name, which stores nothing. `is_temporary`: of this session."""

    name: Name
    query: Query
    is_temporary: bool = False
    or_replace: bool = False
    if_not_exists: bool = False


class CreateFunction(Statement, frozen=True):
    """`CREATE FUNCTION name(parameters) RETURNS type RETURN expression`. `returns`: None if the expression's type
    counts."""

    name: Name
    parameters: tuple[Column, ...]
    returns: str | None
    body: Fragment
    is_temporary: bool = False
    or_replace: bool = False
    if_not_exists: bool = False


class CreateType(Statement, frozen=True):
    """`CREATE TYPE name AS type`. `type`: Spark's name."""

    name: Name
    type: str
    if_not_exists: bool = False


class InsertValues(Statement, frozen=True):
    """`INSERT INTO target (columns) VALUES (...), (...)`. `columns`: () for all, in their order. `rows`: each as long
    as the others."""

    target: Name
    columns: tuple[Name, ...]
    rows: tuple[tuple[Fragment, ...], ...]


class InsertQuery(Statement, frozen=True):
    """`INSERT INTO target (columns) query`: the query runs until it is terminated. `by_name`: columns are matched by
    their names."""

    target: Name
    columns: tuple[Name, ...]
    by_name: bool
    query: Query


class RunQuery(Statement, frozen=True):
    """A query by itself: its rows go to the one who asked."""

    query: Query


class Droppable(enum.Enum):
    """What DROP removes."""

    STREAM = "stream"
    TABLE = "table"
    TYPE = "type"
    VIEW = "view"
    MATERIALIZED_VIEW = "materialized view"
    FUNCTION = "function"


class Drop(Statement, frozen=True):
    """`DROP STREAM IF EXISTS name DELETE TOPIC`. `deletes_topic`: of a stream or table only."""

    what: Droppable
    name: Name
    if_exists: bool = False
    deletes_topic: bool = False


class Subject(enum.Enum):
    """What SHOW lists."""

    STREAMS = "streams"
    TABLES = "tables"
    VIEWS = "views"
    QUERIES = "queries"
    TOPICS = "topics"
    TYPES = "types"
    FUNCTIONS = "functions"
    VARIABLES = "variables"
    PROPERTIES = "properties"


class Show(Statement, frozen=True):
    """`SHOW subject EXTENDED`. `all_topics`: internal topics too."""

    subject: Subject
    is_extended: bool = False
    all_topics: bool = False


class Describe(Statement, frozen=True):
    """`DESCRIBE name EXTENDED`."""

    name: Name
    is_extended: bool = False


class DescribeFunction(Statement, frozen=True):
    """`DESCRIBE FUNCTION name`."""

    name: Name


class Explain(Statement, frozen=True):
    """`EXPLAIN query_id`, or EXPLAIN before a statement that has a query."""

    what: Name | RunQuery | CreateAs | CreateStreamingTable | CreateMaterializedView | CreateView | InsertQuery


class Print(Statement, frozen=True):
    """`PRINT topic FROM BEGINNING INTERVAL n LIMIT n`. `interval`: every n-th record is shown."""

    topic: Name
    from_beginning: bool = False
    interval: int = 1
    limit: int | None = None


class Action(enum.Enum):
    PAUSE = "pause"
    RESUME = "resume"
    TERMINATE = "terminate"


class Control(Statement, frozen=True):
    """`PAUSE|RESUME|TERMINATE query_id|ALL`. `query`: None for ALL."""

    action: Action
    query: Name | None


class SetProperty(Statement, frozen=True):
    """`SET 'name' = 'value'`. `value`: None for UNSET."""

    name: Name
    value: str | None


class Define(Statement, frozen=True):
    """`DEFINE name = 'value'`. `value`: None for UNDEFINE."""

    name: Name
    value: str | None


class RunScript(Statement, frozen=True):
    """`RUN SCRIPT 'path'`."""

    path: Name


class AssertSource(Statement, frozen=True):
    """`ASSERT STREAM|TABLE name (columns) WITH (properties)`."""

    kind: Kind
    name: Name
    columns: tuple[Column, ...]
    properties: tuple[Property, ...]


class AssertValues(Statement, frozen=True):
    """`ASSERT VALUES name (columns) VALUES (...)`: the next row of the stream or table."""

    name: Name
    columns: tuple[Name, ...]
    values: tuple[Fragment, ...]


class AssertTombstone(Statement, frozen=True):
    """`ASSERT NULL VALUES name (columns) KEY (...)`: the next record of the table deletes this key."""

    name: Name
    columns: tuple[Name, ...]
    key: tuple[Fragment, ...]


class AssertTopic(Statement, frozen=True):
    """`ASSERT [NOT EXISTS] TOPIC name WITH (properties) TIMEOUT 10 SECONDS`."""

    topic: Name
    properties: tuple[Property, ...]
    exists: bool = True
    timeout: Duration | None = None


class AssertSchema(Statement, frozen=True):
    """`ASSERT [NOT EXISTS] SCHEMA SUBJECT name ID n TIMEOUT 10 SECONDS`. One of subject and id is given."""

    subject: Name | None
    id: int | None
    exists: bool = True
    timeout: Duration | None = None
