"""The function of each statement that only looks, or changes the session only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from moldau.products.sql.catalog.catalog import Catalog
from moldau.products.sql.engine.answers import Answer, QueryStatus
from moldau.products.sql.engine.looking.asserting import assert_schema, assert_source, assert_topic
from moldau.products.sql.engine.looking.cluster import ClusterView
from moldau.products.sql.engine.looking.describing import describe, describe_function
from moldau.products.sql.engine.looking.session_properties import define, set_property
from moldau.products.sql.engine.looking.shows import show
from moldau.products.sql.engine.looking.sight import Sight
from moldau.products.sql.engine.session import Session
from moldau.products.sql.language.parser.script import Parsed
from moldau.products.sql.language.statements import (
    AssertSchema,
    AssertSource,
    AssertTopic,
    Define,
    Describe,
    DescribeFunction,
    SetProperty,
    Show,
    Statement,
)

_LOOKS: Mapping[type[Statement], Callable[..., Answer]] = {
    Show: show,
    Describe: describe,
    DescribeFunction: describe_function,
    SetProperty: set_property,
    Define: define,
    AssertTopic: assert_topic,
    AssertSchema: assert_schema,
    AssertSource: assert_source,
}


def only_looks(statement: Statement) -> bool:
    """Whether `look` takes it."""
    return type(statement) in _LOOKS


def look(
    catalog: Catalog, session: Session, statuses: Iterable[QueryStatus], cluster: ClusterView, parsed: Parsed
) -> Answer:
    """The answer to SHOW, DESCRIBE, SET, DEFINE, and ASSERT of a topic, schema, stream or table. SET and DEFINE change
    the session. Raises SqlError, MoldauError if the cluster does not answer, and KeyError for other statements."""
    sight = Sight(catalog, session, {one.query.id: one for one in statuses}, cluster, parsed)
    return _LOOKS[type(parsed.statement)](sight, parsed.statement)
