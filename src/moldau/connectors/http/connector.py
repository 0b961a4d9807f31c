"""The class `http`: a source where the configuration names no topics to read, otherwise a sink."""

from __future__ import annotations

from typing import Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, SimpleDataSourceStreamReader
from pyspark.sql.types import Row, StringType, StructField, StructType

from moldau.connect.configuration import ConfigError, Setting, wrong
from moldau.connect.contract.columns import ENVELOPE_FIELDS, SINK_COLUMNS, source_schema
from moldau.connect.contract.ddl import parse_ddl
from moldau.connect.contract.shared_settings import TOPIC
from moldau.connectors.http.reader import HttpReader
from moldau.connectors.http.settings import SETTINGS, paging_of, parse_settings, server_of
from moldau.connectors.http.writer import HttpWriter, Sending
from moldau.connectors.json_values import row_maker, to_json

_ENVELOPE = StructType([StructField(name, StringType()) for name in ENVELOPE_FIELDS])


class Http(DataSource):
    """A source is exactly once, as far as a cursor gives the same pages. A sink is at least once."""

    settings: ClassVar[tuple[Setting, ...]] = SETTINGS

    @classmethod
    def name(cls) -> str:
        return "http"

    def schema(self) -> StructType:
        """With `columns`, those; otherwise whole records, whose values have no schema. Raises ConfigError."""
        columns = str(self._values()["columns"])
        if not columns:
            return source_schema(value=_ENVELOPE)
        try:
            schema = parse_ddl(columns)
            row_maker(schema)
        except ValueError as error:
            raise ConfigError({"columns": (wrong("columns", columns, str(error)),)}) from error
        return schema

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802 - Spark's name
        """Raises ConfigError."""
        values = self._values()
        make_row = row_maker(schema) if values["columns"] else _RecordMaker(self._topic())
        server = server_of(values, {"Accept": "application/json"})
        poll_ms = values["poll.interval.ms"]
        return HttpReader(server, paging_of(values), make_row, values["cursor.initial"], poll_ms)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Raises ConfigError."""
        values = self._values()
        sending = Sending(
            server_of(values, {}),
            values["method"],
            values["body.format"],
            values["batch.max.size"],
            values["body.max.bytes"],
            values["idempotency.header"],
        )
        return HttpWriter(sending, schema, is_record=sorted(schema.names) == sorted(SINK_COLUMNS))

    def _topic(self) -> str:
        topic: str = self.options.get(TOPIC, "").strip()
        if not topic:
            raise ConfigError(
                {TOPIC: (f'Missing required configuration "{TOPIC}": without columns, it is in each row',)}
            )
        return topic

    def _values(self) -> dict[str, Any]:
        return parse_settings(dict(self.options))


class _RecordMaker:
    """Rows of whole records, whose values are in the envelope of JsonConverter."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def __call__(self, record: Any) -> tuple[Any, ...]:
        return self._topic, None, None, Row(schema=None, payload=to_json(record)), None, None
