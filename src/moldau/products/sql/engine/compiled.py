"""A query of a statement, compiled: its plan, and its frame in a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.core.statement import quoted
from moldau.products.pipelines.formats.registry import Registry
from moldau.products.pipelines.running.flow import with_watermark
from moldau.products.sql.catalog.catalog import Catalog, Function
from moldau.products.sql.catalog.reads import function_of
from moldau.products.sql.compiling.expressions import Writing
from moldau.products.sql.compiling.frames import make_frame
from moldau.products.sql.compiling.plan import Asked, QueryPlan, plan_query, rows_view
from moldau.products.sql.language.functions.table import SESSION_SETTINGS
from moldau.products.sql.language.rewrites import dialect_of
from moldau.products.sql.language.statements import Kind
from moldau.products.sql.records.source import RelationSource, snapshot, source_of
from moldau.spark.tables.start import SETTINGS as TABLE_SETTINGS

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession

NAMESPACE_SETTINGS: Mapping[str, str] = {
    **SESSION_SETTINGS,
    **TABLE_SETTINGS,
    "spark.sql.variable.substitute": "false",
}
"""Of the session of each query. `${name}` in a string is text: the parser has put in the variables."""


class Place(msgspec.Struct, frozen=True):
    """Where the records are. `registry`: the address of the schema registry. `dead_letters`: the topic for records that
    do not decode; None: they are only counted."""

    access: ClusterAccess
    registry: Registry | None = None
    dead_letters: str | None = None


class Compiled:
    """The plan of a query, with what is needed to make its frame."""

    def __init__(self, catalog: Catalog, asked: Asked, *, is_live: bool) -> None:
        """Raises SqlError."""
        self.plan: QueryPlan = plan_query(catalog, asked, is_live=is_live)
        self.writing = asked.writing
        self._catalog = catalog

    def sources(self, place: Place, start: str, most: int | None = None) -> dict[str, RelationSource]:
        """The sources of a live query by the names of their views. `most`: records of a micro-batch."""
        late = self.plan.source_watermark_ms
        found = {}
        for relation in self.plan.reads:
            source = source_of(
                relation,
                place.access,
                registry=place.registry,
                dead_letters=place.dead_letters,
                # a table that lacks its older rows is another table
                start="earliest" if relation.kind is Kind.TABLE else start,
                watermark=None if late is None else f"{late} milliseconds",
            )
            found[rows_view(relation)] = msgspec.structs.replace(source, max_records=most)
        return found

    def frame(self, spark: SparkSession) -> DataFrame:
        """The views of the sources exist in this session. Raises SqlError."""
        create_functions(spark, self._catalog)
        return make_frame(spark, self.plan, self.writing)

    def live_frame(self, spark: SparkSession, sources: Mapping[str, RelationSource]) -> DataFrame:
        """In a session of its own. Raises SqlError, FlowError."""
        for name, source in sources.items():
            rows = source.rows(source.load(spark), f"dead_letters_of_{name}")
            with_watermark(rows, source).createOrReplaceTempView(quoted(name))
        return self.frame(spark)

    def current_frame(self, spark: SparkSession, place: Place) -> DataFrame:
        """Over what the topics hold now. Raises SqlError, FlowError."""
        for relation in self.plan.reads:
            source = source_of(relation, place.access, registry=place.registry, dead_letters=None)
            snapshot(spark, source).createOrReplaceTempView(quoted(rows_view(relation)))
        return self.frame(spark)


def create_functions(spark: SparkSession, catalog: Catalog) -> None:
    """Makes all functions of the catalog known in the session. Raises SqlError, and Spark's errors."""
    from moldau.spark.definitions.python_functions import register_function

    for given in catalog.given.values():
        register_function(spark, given.name, given.function)
    for function in catalog.functions.values():
        create_function(spark, function)


def create_function(spark: SparkSession, function: Function) -> None:
    """Makes a function of CREATE FUNCTION known in the session. Raises SqlError, and Spark's errors."""
    statement = function_of(function)
    body = Writing(function.statement, function.types, dialect_of(function.properties)).sql(statement.body, {})
    parameters = ", ".join(f"{quoted(one.name.text)} {one.type}" for one in statement.parameters)
    returns = f" RETURNS {statement.returns}" if statement.returns else ""
    name = quoted(function.name)
    spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {name}({parameters}){returns} RETURN {body.text}")
