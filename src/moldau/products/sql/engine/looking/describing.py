"""DESCRIBE."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.products.sql.catalog.catalog import Function, Relation
from moldau.products.sql.catalog.reads import function_of
from moldau.products.sql.compiling.scope import OWN_COLUMNS
from moldau.products.sql.compiling.select_text import WINDOW_END, WINDOW_START
from moldau.products.sql.engine.answers import Answer, Described, Explained, FunctionDescribed
from moldau.products.sql.engine.looking.shows import count_of
from moldau.products.sql.engine.looking.sight import Sight
from moldau.products.sql.language.functions.row import Function as KsqlFunction
from moldau.products.sql.language.functions.table import FUNCTIONS
from moldau.products.sql.language.queries import error_of
from moldau.products.sql.language.rewrites import Dialect, rewrite
from moldau.products.sql.language.statements import Describe, DescribeFunction
from moldau.products.sql.language.tokens import tokenize
from moldau.types import nearest

_SETTINGS = ("cleanup.policy", "retention.ms", "retention.bytes", "min.insync.replicas")
"""The settings of a topic that DESCRIBE EXTENDED shows."""
_COLUMNS = {**OWN_COLUMNS, WINDOW_START: WINDOW_START, WINDOW_END: WINDOW_END}
"""They stay in a template as they are."""


def describe(sight: Sight, statement: Describe) -> Answer:
    """Of a stream or table: Described. Of a view, which has no topic: Explained. Raises SqlError for an unknown one,
    and MoldauError if the cluster does not answer."""
    catalog, name = sight.catalog, statement.name
    view = catalog.views.get(name.key)
    if view is not None:
        return Explained(statement=sight.parsed.text, reads=sight.names_of(view.reads), text=view.statement)
    relation = catalog.relations.get(name.key)
    if relation is None:
        raise error_of(name, f"there is no stream, table or view {name.text}", catalog.nearest_relation(name.text))
    return Described(
        statement=sight.parsed.text,
        relation=relation,
        readers=sight.statuses_of(catalog.readers_of(name.key)),
        writers=sight.statuses_of(catalog.writers_of(name.key)),
        topic=tuple(_facts(sight, relation)) if statement.is_extended else (),
    )


def _facts(sight: Sight, relation: Relation) -> Iterator[tuple[str, str]]:
    """About the topic, in words."""
    topic = sight.cluster.topics().get(relation.topic)
    if topic is None:
        yield "topic", f"{relation.topic} does not exist"
        return
    spans = sight.cluster.ranges([topic]).get(topic.name, ())
    yield "partitions", count_of(topic.partitions)
    yield "replicas", count_of(topic.replicas)
    yield "offsets that are kept", count_of(sum(end - start for start, end in spans))
    if len(spans) < topic.partitions:
        yield "partitions without a leader", count_of(topic.partitions - len(spans))
    settings = sight.cluster.settings(topic.name)
    for name in _SETTINGS:
        if name in settings:
            yield name, settings[name]


def describe_function(sight: Sight, statement: DescribeFunction) -> Answer:
    """A function of CREATE FUNCTION, of a file, or of ksqlDB. Raises SqlError for another one."""
    name = statement.name
    own = sight.catalog.functions.get(name.key)
    if own is not None:
        return _own(sight, own)
    given = sight.catalog.given.get(name.key)
    if given is not None:
        note = "; ".join(part for part in (given.note, f"in Python, {given.file}") if part)
        return FunctionDescribed(
            statement=sight.parsed.text, name=given.name, usage=given.usage, template="", note=note
        )
    row = FUNCTIONS.get(name.text.upper())
    if row is None:
        raise error_of(
            name,
            f"no function of ksqlDB and no function of CREATE FUNCTION has the name {name.text}; functions of Spark "
            "SQL need no rewrite, and Spark's own pages describe them",
            nearest(name.text, [*FUNCTIONS, *sight.catalog.functions, *sight.catalog.given]),
        )
    note = "; ".join(part for part in (row.note, f"in Spark, {row.differs}" if row.differs else "") if part)
    return FunctionDescribed(
        statement=sight.parsed.text,
        name=row.name,
        usage="; ".join(row.examples),
        template="" if row.is_same else "; ".join(_rewritten(row)),
        note=note,
    )


def _own(sight: Sight, kept: Function) -> Answer:
    function = function_of(kept)
    named = ", ".join(f"{one.name.text} {one.type}" for one in function.parameters)
    usage = f"{kept.name}({named})" + (f" RETURNS {function.returns}" if function.returns else "")
    return FunctionDescribed(statement=sight.parsed.text, name=kept.name, usage=usage, template=function.body.text)


def _rewritten(row: KsqlFunction) -> Iterator[str]:
    """What the examples become in Spark SQL."""
    for example in row.examples:
        yield rewrite(example, tokenize(example), columns=_COLUMNS, dialect=Dialect.KSQL).text
