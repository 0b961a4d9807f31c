"""A data source of Spark's Python API as a target: a class of one's own, a connector, or a format that Spark has.

    sink: {datasource: "lines:Lines", options: {directory: out}}

A class with `streamWriter` gets each batch with its number, also when the batch is repeated: it decides itself what is
exactly once. Another class, and a format of Spark's, appends the rows of a batch, at least once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.products.pipelines.core.data_source import DATASOURCE, OPTIONS, NamedDataSource
from moldau.products.pipelines.core.keys import Choice
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.targets.target import Target, TargetError, TargetQuery, refuse_double_columns

if TYPE_CHECKING:
    from moldau.spark import DataFrame

MODE = Choice("mode", ("append",), "Each row is another one.", default="append")


class DataSourceTarget(Target, frozen=True, kw_only=True):
    NAMED_BY = DATASOURCE
    KEYS = (MODE, OPTIONS)

    used: NamedDataSource

    @classmethod
    def parse(cls, sink: Section, directory: Path) -> DataSourceTarget:
        return cls(mode=MODE.of(sink), used=NamedDataSource.parse(sink, directory))

    def describe(self) -> tuple[str, str]:
        return f"data source {self.used.name}", self._delivery()

    def facts(self) -> Facts:
        return self.used.facts()

    def check(self) -> None:
        found = self.used.find()
        if found is None:
            return
        from moldau.connect.contract.describing import overrides

        if not overrides(found, "streamWriter") and not overrides(found, "writer"):
            raise TargetError(f"{self.used.name} has neither streamWriter nor writer: no row can be written")

    def rows_of(self, result: DataFrame) -> DataFrame:
        refuse_double_columns(result.columns, in_any_case=False)
        return result

    def writer(self, query: TargetQuery) -> Callable[[DataFrame, int], None]:
        from moldau.connect.contract.describing import overrides
        from moldau.spark.definitions.data_sources import register_data_source, write_batch

        found, options = self.used.find(), dict(self.used.options)

        def write(batch: DataFrame, batch_id: int) -> None:
            if found is not None and overrides(found, "streamWriter"):
                write_batch(batch, batch_id, found, options)
                return
            name = self.used.name if found is None else register_data_source(batch.sparkSession, found)
            batch.write.format(name).options(**options).mode("append").save()

        return write

    def _delivery(self) -> str:
        from moldau.connect.configuration import ConfigError
        from moldau.connect.contract.describing import describe, overrides

        try:
            found = self.used.find()
        except ConfigError:
            return "unknown: the class is not found"
        if found is None or not overrides(found, "streamWriter"):
            return "at least once: a batch that a crash cuts short is appended again"
        return f"{describe(found).sink_delivery.replace('-', ' ')}, as its class says"
