"""The class `s3`."""

from __future__ import annotations

from typing import ClassVar

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter
from pyspark.sql.types import StructType

from moldau.connect.configuration import ConfigError, Setting
from moldau.connect.contract.columns import SINK_COLUMNS
from moldau.connect.contract.schemas import SchemaError
from moldau.connectors.s3.formats import COMPRESSIONS, extension
from moldau.connectors.s3.layout import Layout
from moldau.connectors.s3.settings import SETTINGS, parse_settings
from moldau.connectors.s3.store import store_of
from moldau.connectors.s3.writer import S3Writer, Written


class S3(DataSource):
    settings: ClassVar[tuple[Setting, ...]] = SETTINGS
    delivery: ClassVar[str] = "exactly-once"

    @classmethod
    def name(cls) -> str:
        return "s3"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Raises ConfigError."""
        values = parse_settings(dict(self.options))
        is_record = sorted(schema.names) == sorted(SINK_COLUMNS)
        if values["partition.time"] != "none" and not values["time.field"] and not is_record:
            raise ConfigError({"time.field": ("time.field must name the time of rows that are not whole records.",)})
        form = values["format"]
        compression = values["compression"] or COMPRESSIONS[form][0]
        layout = Layout(
            values["prefix"],
            tuple(values["partition.fields"]),
            values["partition.time"],
            values["time.field"],
            extension(form, compression),
        )
        written = Written(form, compression, values["with.record"], values["rotate.max.rows"])
        try:
            return S3Writer(store_of(values), layout, written, schema)
        except SchemaError as error:
            raise ConfigError({"format": (f"format={form}: {error}",)}) from error
