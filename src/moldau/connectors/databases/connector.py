"""The base of the connectors of databases: a sink and a source of one database."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Protocol

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from moldau.connectors.databases.dialect import Database
from moldau.connectors.databases.settings import sink_settings
from moldau.connectors.databases.sink import DatabaseWriter
from moldau.connectors.databases.source import DatabaseReader, SourceDatabase, source_settings


class ConnectedDatabase(Database, SourceDatabase, Protocol):
    """What a sink and a source need."""


class DatabaseConnector(DataSource):
    delivery: ClassVar[str] = "exactly-once"

    @abstractmethod
    def database(self) -> ConnectedDatabase:
        """That of the options. Raises ConfigError."""

    def schema(self) -> StructType:
        return self.database().row_type(source_settings(self.options))

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802
        return DatabaseReader(self.database(), source_settings(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return DatabaseWriter(self.database(), sink_settings(self.options), schema)
