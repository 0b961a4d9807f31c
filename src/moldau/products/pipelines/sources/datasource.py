"""A data source of Spark's Python API as a source: a class of one's own, a connector, or a format that Spark has.

    sources:
      readings: {datasource: "sensors:Readings", options: {port: 7000}}
      numbers: {datasource: rate, options: {rowsPerSecond: 10}}

A class needs `streamReader` or `simpleStreamReader` for a stream, and `reader` for a table to join with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.products.pipelines.core.data_source import DATASOURCE, OPTIONS, NamedDataSource
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.keys import Text
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.times import DEFAULT_TIMES, SourceTimes
from moldau.products.pipelines.sources.source import Source, SpecHead

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession

SCHEMA = Text("schema", "The columns and their Spark types.", absent="those that the data source gives")


class DataSourceSource(Source, frozen=True, kw_only=True):
    NAMED_BY = (DATASOURCE,)
    KEYS = (OPTIONS, SCHEMA)

    used: NamedDataSource
    schema: str | None = None

    @classmethod
    def parse(cls, source: Section, head: SpecHead) -> DataSourceSource:
        return cls(
            used=NamedDataSource.parse(source, head.directory),
            schema=SCHEMA.if_given(source),
            **cls.parse_common(source),
        )

    def describe(self) -> str:
        return f"data source {self.used.name}"

    def facts(self) -> Facts:
        return {**self.used.facts(), SCHEMA: self.schema}

    def check(self) -> None:
        found = self.used.find()
        if found is None:
            return
        from moldau.connect.contract.describing import Reading, describe, overrides

        reading = describe(found).reading
        if self.as_table and not overrides(found, Reading.BATCH):
            raise FlowError(f"{self.used.name} has no reader: it can only be read as a stream")
        if not self.as_table and reading in (None, Reading.BATCH):
            raise FlowError(f"{self.used.name} has neither streamReader nor simpleStreamReader: no stream can be read")

    def load(self, spark: SparkSession, times: SourceTimes = DEFAULT_TIMES) -> DataFrame:
        return self._load(spark, spark.readStream)

    def load_table(self, spark: SparkSession, times: SourceTimes = DEFAULT_TIMES) -> DataFrame:
        return self._load(spark, spark.read)

    def _load(self, spark: SparkSession, reader: Any) -> DataFrame:
        from moldau.spark.definitions.data_sources import register_data_source

        found = self.used.find()
        name = self.used.name if found is None else register_data_source(spark, found)
        reader = reader.format(name).options(**dict(self.used.options))
        loaded: DataFrame = (reader if self.schema is None else reader.schema(self.schema)).load()
        return loaded
