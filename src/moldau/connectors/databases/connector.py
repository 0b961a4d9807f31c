"""The base of the connectors of databases: a sink and a source of one database."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Protocol

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from moldau.connect.contract.shared_settings import TOPIC
from moldau.connectors.databases.dialect import Database
from moldau.connectors.databases.settings import TOPIC_PREFIX, sink_settings
from moldau.connectors.databases.sink import DatabaseWriter
from moldau.connectors.databases.source import DatabaseReader, SourceDatabase, source_settings


class ConnectedDatabase(Database, SourceDatabase, Protocol):
    """What a sink and a source need."""


class DatabaseConnector(DataSource):
    delivery: ClassVar[str] = "exactly-once"

    @staticmethod
    def split(config: Mapping[str, str], tasks: int) -> list[dict[str, str]]:
        """One task reads, into the topic that `topic.prefix` gives if there is no other. Raises ConfigError."""
        prefix = config.get(TOPIC_PREFIX, "").strip()
        if not prefix or config.get(TOPIC, "").strip():
            return [dict(config)]
        table = source_settings(config).table
        return [{**config, TOPIC: prefix + (table[-1] if table else "")}]

    @abstractmethod
    def database(self) -> ConnectedDatabase:
        """That of the options. Raises ConfigError."""

    def schema(self) -> StructType:
        return self.database().row_type(source_settings(self.options))

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802
        return DatabaseReader(self.database(), source_settings(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return DatabaseWriter(self.database(), sink_settings(self.options), schema)
