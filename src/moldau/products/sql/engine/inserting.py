"""INSERT INTO ... VALUES: evaluates the expressions, and writes the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.products.pipelines.core.statement import quoted
from moldau.products.sql.catalog.catalog import Catalog
from moldau.products.sql.catalog.deciding import RowsWritten
from moldau.products.sql.compiling.composed import Composed, joined
from moldau.products.sql.compiling.expressions import Writing
from moldau.products.sql.compiling.spark_text import sql_frame
from moldau.products.sql.engine.compiled import NAMESPACE_SETTINGS, Place, create_functions
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.statements import Role
from moldau.products.sql.records.inserts import insert_rows
from moldau.products.sql.records.layout import ROW_TIME
from moldau.spark.queries.namespace import as_active, open_namespace

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession


def insert_values(spark: SparkSession, written: RowsWritten, catalog: Catalog, writing: Writing, place: Place) -> None:
    """Writes all rows, or none. Raises SqlError, FlowError, KafkaError."""
    own = open_namespace(spark, NAMESPACE_SETTINGS)
    with as_active(own):
        create_functions(own, catalog)
        insert_rows(values_frame(own, written, writing), written.relation, place.access, place.registry)


def values_frame(spark: SparkSession, written: RowsWritten, writing: Writing) -> DataFrame:
    """The rows, with the types of the relation's columns. Raises SqlError."""
    insert, relation = written.insert, written.relation
    columns = {one.name.key: one for one in relation.columns or () if one.role not in (Role.HEADERS, Role.HEADER)}
    named = [one.key for one in insert.columns] or list(columns)
    kinds = {key: one.type for key, one in columns.items()} | {ROW_TIME.lower(): "bigint"}
    names = {key: one.name.text for key, one in columns.items()} | {ROW_TIME.lower(): ROW_TIME}
    cells = [
        [Composed("CAST(", writing.sql(cell, {}), f" AS {kinds[key]})") for key, cell in zip(named, row, strict=True)]
        for row in insert.rows
    ]
    aliases = ", ".join(quoted(names[key]) for key in named)
    table = joined((Composed("(", joined(row, ", "), ")") for row in cells), ", ")
    try:
        # evaluated while Spark plans, so that no job runs
        return sql_frame(spark, Composed("SELECT * FROM VALUES ", table, f" AS _moldau_rows({aliases})"), writing)
    except SqlError:
        # VALUES takes no expression such as uuid()
        selects = (Composed("SELECT ", joined(row, ", ")) for row in cells)
        return sql_frame(spark, joined(selects, " UNION ALL "), writing).toDF(*(names[key] for key in named))
