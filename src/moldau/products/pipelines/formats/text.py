"""Text formats: JSON, one object per record, and CSV, one line per record, with the schema of the pipeline file.

JSON with a JSON Schema is in `json_schema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.products.pipelines.core.column_types import ColumnsError, columns_of
from moldau.products.pipelines.core.keys import Text
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.statement import literal, quoted
from moldau.products.pipelines.formats.format import CORRUPT_COLUMN, FORMAT, Format
from moldau.products.pipelines.formats.json_columns import JsonColumns, knows
from moldau.products.pipelines.formats.json_schema import JsonSchemaFormat

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession

SCHEMA = Text(
    "schema",
    "Names and Spark types of the fields, such as `user string, amount double`.",
    absent="required for csv, and for json without a [JSON Schema](formats.md#json-schema)",
)
SEPARATOR = Text("separator", 'The text between fields; a tab is `"\\t"`.', default=",")
HEADER = Text("header", "The text of a line that is not a record, such as `user,amount`.", absent="none")
READ = "_moldau_read"
"""A column with the rows that JsonColumns has read; null for the others."""
_TIME_ZONE, _TIME_PARSER = "spark.sql.session.timeZone", "spark.sql.legacy.timeParserPolicy"


class JsonFormat(Format, frozen=True, kw_only=True):
    """`schema`: names and Spark types."""

    NAMED_BY = "json"
    KEYS = (SCHEMA, *JsonSchemaFormat.KEYS)

    schema: str

    @classmethod
    def parse(cls, section: Section, directory: Path) -> Format:
        if not JsonSchemaFormat.is_meant(section):
            return cls(schema=_schema(section, cls.NAMED_BY))
        if section.has(SCHEMA):
            section.refuse(SCHEMA, "has no meaning with a JSON Schema, which has the columns itself")
        return JsonSchemaFormat.parse(section, directory)

    def columns(self) -> Mapping[str, str]:
        return columns_of(self.schema)

    def decoded(self, records: DataFrame) -> DataFrame:
        """`from_json` decodes the values that JsonColumns does not. In a frame with the column READ, JsonColumns has
        already run."""
        text = parse_call("from_json", self.schema, {})
        names = [quoted(name) for name in records.columns if name != READ]
        if READ not in records.columns:
            columns = self.reader(records.sparkSession)
            if columns is None:
                return records.selectExpr("*", f"{text} as _value")
            from moldau.spark.frames.columns import with_column  # a pipeline file is checked without Spark

            records = with_column(records, READ, "cast(value as binary)", columns, columns.kind)
        return records.selectExpr(*names, f"coalesce({READ}, {text}) as _value")

    def reader(self, spark: SparkSession) -> JsonColumns | None:
        """Decodes values as `from_json` does in this session; None for types that it does not support."""
        parsed = spark.sql(f"select {parse_call('from_json', self.schema, {})} as _value from (select '' as value)")
        fields = tuple((name, kind) for name, kind in parsed.select("_value.*").dtypes if name != CORRUPT_COLUMN)
        if not knows(fields) or str(spark.conf.get(_TIME_PARSER)).upper() == "LEGACY":
            return None
        return JsonColumns(fields, is_utc=spark.conf.get(_TIME_ZONE) == "UTC", more=(CORRUPT_COLUMN,))

    def reason(self) -> str:
        return (
            "case when value is null then 'the record has no value' "
            "when try_parse_json(cast(value as string)) is null then 'the value is no JSON' "
            f"else {literal(f'the JSON does not fit the schema: {self.schema}')} end"
        )


class CsvFormat(Format, frozen=True, kw_only=True):
    """`header`: a record with this text is not a row; None: no header."""

    NAMED_BY = "csv"
    KEYS = (SCHEMA, SEPARATOR, HEADER)

    schema: str
    separator: str = ","
    header: str | None = None

    @classmethod
    def parse(cls, section: Section, directory: Path) -> CsvFormat:
        header = HEADER.if_given(section)
        if header is not None and header.lower() in ("true", "false"):
            section.refuse(HEADER, f"is the line itself that is no record, such as `user,amount`, not `{header}`")
        return cls(
            schema=_schema(section, cls.NAMED_BY),
            separator=section.text(SEPARATOR, default=SEPARATOR.default, may_be_blank=True),
            header=header,
        )

    def columns(self) -> Mapping[str, str]:
        return columns_of(self.schema)

    def decoded(self, records: DataFrame) -> DataFrame:
        lines = records
        if self.header is not None:
            lines = records.where(f"value is null or trim(cast(value as string)) <> {literal(self.header)}")
        # a quote within quotes is doubled (RFC 4180); Spark's own default is a backslash before it
        return _decoded(lines, "from_csv", self.schema, {"sep": self.separator, "escape": '"'})

    def reason(self) -> str:
        misfit = literal(f"the line does not fit the schema: {self.schema}")
        return f"case when value is null then 'the record has no value' else {misfit} end"


def _schema(section: Section, name: str) -> str:
    if not section.has(SCHEMA):
        section.refuse(FORMAT, f"{name} needs a `schema`, such as `user string, amount double`")
    schema = SCHEMA.of(section)
    is_struct = schema.lower().startswith("struct<") and schema.endswith(">")
    schema = schema[len("struct<") : -1] if is_struct else schema
    try:
        columns_of(schema)
    except ColumnsError as error:
        section.refuse(SCHEMA, str(error))
    return schema


def _decoded(records: DataFrame, function: str, schema: str, more: dict[str, str]) -> DataFrame:
    return records.selectExpr("*", f"{parse_call(function, schema, more)} as _value")


def parse_call(function: str, schema: str, more: Mapping[str, str], text: str = "value") -> str:
    """SQL: `from_json` or `from_csv` of a column of text or bytes, with CORRUPT_COLUMN. `more`: its options."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_COLUMN, **more}
    texts = ", ".join(f"{literal(name)}, {literal(text)}" for name, text in options.items())
    columns = literal(f"{schema}, {CORRUPT_COLUMN} string")
    return f"{function}(cast({text} as string), {columns}, map({texts}))"
