"""The classes: `files`, and FileStreamSource and FileStreamSink with the keys of Kafka's connectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, SimpleDataSourceStreamReader
from pyspark.sql.types import BinaryType, StringType, StructType

from moldau.connect.configuration import (
    ConfigError,
    Importance,
    Kind,
    Setting,
    in_range,
    not_empty,
    one_of,
    parse,
    wrong,
)
from moldau.connect.contract.columns import source_schema
from moldau.connect.contract.ddl import parse_ddl
from moldau.connectors.files.arrow import LinesReader, LinesWriter
from moldau.connectors.files.csv_records import CsvRecords
from moldau.connectors.files.formats import CSV, FORMATS, JSON, LINES, check_columns, checked_json
from moldau.connectors.files.lines import Folder
from moldau.connectors.files.sink import FileWriter
from moldau.connectors.files.source import FileReader, Reading, Rows, RowsOfColumns, RowsOfRecords

LONGEST_LINE: Final = 1 << 20
MAX_LONGEST_LINE: Final = 64 << 20


def _columns(name: str, value: object) -> None:
    if value is not None:
        try:
            check_columns(parse_ddl(str(value)), JSON)
        except ValueError as error:
            raise ValueError(wrong(name, value, str(error))) from None


def _delimiter(name: str, value: object) -> None:
    if not isinstance(value, str) or len(value) != 1 or value in '"\r\n':
        raise ValueError(wrong(name, value, "Expected one character"))


_BATCH_SIZE: Final = Setting(
    "batch.size",
    Kind.INT,
    None,
    Importance.LOW,
    "Lines of a batch, at most. Default: batch.max.rows.",
    check=lambda name, value: None if value is None else in_range(1)(name, value),
)
_LONGEST: Final = Setting(
    "max.line.bytes",
    Kind.INT,
    LONGEST_LINE,
    Importance.LOW,
    "Bytes of a line, at most. A longer one is a bad line.",
    check=in_range(1, MAX_LONGEST_LINE),
)
_BAD_LINES: Final = Setting(
    "bad.lines",
    Kind.STRING,
    "fail",
    documentation="A line that is too long or does not have the format: fail stops the task, skip leaves it out.",
    check=one_of("fail", "skip"),
)


class Files(DataSource):
    """`files`: a source, or with `topics` a sink."""

    delivery: ClassVar[str] = "exactly-once"
    settings: ClassVar[tuple[Setting, ...]] = (
        Setting(
            "path",
            Kind.STRING,
            importance=Importance.HIGH,
            documentation="A file, or a directory. A sink writes files into a directory, or appends to a file.",
            check=not_empty,
        ),
        Setting(
            "format",
            Kind.STRING,
            LINES,
            Importance.HIGH,
            "lines: texts. json: a JSON value in each line. csv: fields with a delimiter.",
            check=one_of(*FORMATS),
        ),
        Setting(
            "columns",
            Kind.STRING,
            None,
            documentation="The columns of a source as DDL. CSV needs them; JSON without them gives the lines as texts.",
            check=_columns,
        ),
        Setting("key.columns", Kind.LIST, (), documentation="The columns that make the key of a record."),
        Setting(
            "pattern", Kind.STRING, "*", documentation="The names of the files that a source reads in a directory."
        ),
        Setting("csv.delimiter", Kind.STRING, ",", documentation="The delimiter of CSV.", check=_delimiter),
        Setting(
            "csv.header", Kind.BOOLEAN, True, documentation="Whether a file of CSV that is read begins with names."
        ),
        Setting(
            "csv.multiline",
            Kind.BOOLEAN,
            False,
            documentation="Whether a quoted field of CSV may contain ends of lines. A quote that is not closed then "
            "holds up the file until max.line.bytes.",
        ),
        _BATCH_SIZE,
        _LONGEST,
        _BAD_LINES,
        Setting("part", Kind.INT, 0, Importance.LOW, "The part of this task: set by the split.", check=in_range(0)),
        Setting("parts", Kind.INT, 1, Importance.LOW, "The number of parts: set by the split.", check=in_range(1)),
    )

    @classmethod
    def name(cls) -> str:
        return "files"

    @staticmethod
    def split(config: Mapping[str, str], tasks: int) -> list[dict[str, str]]:
        """The tasks share the files of a directory; a single file has one task."""
        if not Path(config.get("path", "")).is_dir():
            return [dict(config)]
        return [{**config, "part": str(part), "parts": str(tasks)} for part in range(tasks)]

    @property
    def key_columns(self) -> tuple[str, ...]:
        return tuple(self._values()["key.columns"])

    def schema(self) -> StructType:
        """Raises ConfigError."""
        values = self._values()
        columns = values["columns"]
        if columns is None:
            if values["format"] == CSV:
                raise ConfigError({"columns": ('Missing required configuration "columns": CSV needs them.',)})
            return source_schema(value=StringType())
        if values["format"] == LINES:
            raise ConfigError({"columns": (wrong("columns", columns, "The format lines has no columns"),)})
        schema = parse_ddl(columns)
        try:
            check_columns(schema, values["format"])
        except ValueError as error:
            raise ConfigError({"columns": (wrong("columns", columns, str(error)),)}) from None
        for name in self.key_columns:
            if name not in schema.names:
                reason = f"The columns are {', '.join(schema.names)}"
                raise ConfigError({"key.columns": (wrong("key.columns", name, reason),)})
        return schema

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802 - Spark's name
        values = self._values()
        folder = Folder(Path(values["path"]), values["pattern"], values["part"], values["parts"])
        reading = _reading(values, has_position=False)
        if values["format"] == CSV and values["csv.multiline"]:
            reading = replace(reading, records=CsvRecords(values["csv.delimiter"]))
        return _reader(folder, self._rows(schema, values), reading)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        values = self._values()
        path = Path(values["path"])
        is_folder = path.is_dir() or values["path"].endswith("/")
        (path if is_folder else path.parent).mkdir(parents=True, exist_ok=True)
        try:
            return _writer(path, is_folder, values["format"], schema, values["csv.delimiter"])
        except ValueError as error:
            raise ConfigError({"format": (wrong("format", values["format"], str(error)),)}) from None

    def _rows(self, schema: StructType, values: Mapping[str, Any]) -> Rows:
        skips, form = values["bad.lines"] == "skip", values["format"]
        if values["columns"] is None:
            return RowsOfRecords(_topic(self.options), checked_json if form == JSON else None, skips)
        return RowsOfColumns(form, schema, values["csv.delimiter"], values["csv.header"], skips)

    def _values(self) -> dict[str, Any]:
        return parse(self.settings, dict(self.options))


class FileStreamSource(DataSource):
    """The lines of one file, as Kafka's FileStreamSource gives them."""

    settings: ClassVar[tuple[Setting, ...]] = (
        Setting("file", Kind.STRING, importance=Importance.HIGH, documentation="The file to read.", check=not_empty),
        Setting("topic", Kind.STRING, importance=Importance.HIGH, documentation="The topic of the lines."),
        _BATCH_SIZE,
        _LONGEST,
        _BAD_LINES,
    )

    @classmethod
    def name(cls) -> str:
        return "FileStreamSource"

    def schema(self) -> StructType:
        return source_schema(value=StringType())

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802
        values: dict[str, Any] = parse(self.settings, dict(self.options))
        rows = RowsOfRecords(_topic(self.options), None, skips=False)
        return _reader(Folder(Path(values["file"])), rows, _reading(values, has_position=True))


class FileStreamSink(DataSource):
    """Appends values to one file, as Kafka's FileStreamSink does."""

    delivery: ClassVar[str] = "exactly-once"
    settings: ClassVar[tuple[Setting, ...]] = (
        Setting(
            "file", Kind.STRING, importance=Importance.HIGH, documentation="The file to append to.", check=not_empty
        ),
    )

    @classmethod
    def name(cls) -> str:
        return "FileStreamSink"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        values: dict[str, Any] = parse(self.settings, dict(self.options))
        path = Path(values["file"])
        path.parent.mkdir(parents=True, exist_ok=True)
        return _writer(path, False, LINES, schema)


def _reader(folder: Folder, rows: Rows, reading: Reading) -> FileReader:
    """One that gives Arrow, if lines are records as they are."""
    if isinstance(rows, RowsOfRecords) and rows.check is None:
        return LinesReader(folder, rows, reading)
    return FileReader(folder, rows, reading)


def _writer(path: Path, is_folder: bool, form: str, schema: StructType, delimiter: str = ",") -> FileWriter:
    """One that takes Arrow, if values are lines as they are. Raises ValueError."""
    is_plain = "value" in schema.names and isinstance(schema["value"].dataType, StringType | BinaryType)
    made = LinesWriter if form == LINES and is_plain else FileWriter
    return made(path, is_folder, form, schema, delimiter)


def _topic(options: Mapping[str, str]) -> str:
    topic = options.get("topic", "").strip()
    if not topic:
        raise ConfigError({"topic": ('Missing required configuration "topic" which has no default value.',)})
    return topic


def _reading(values: Mapping[str, Any], has_position: bool) -> Reading:
    return Reading(values["batch.size"], values["max.line.bytes"], values["bad.lines"] == "skip", has_position)
